"""The numbers on pages: each is marked with its source and compared with it.

blocks        the numbers of a Markdown page, block by block
mark_numbers  the command: what is wrong, marks for a new page, new values for an old one
marked_text   a text under construction, and the source of each number in it
sources       where each number of a page comes from, and whether the page still says what its source says
"""
