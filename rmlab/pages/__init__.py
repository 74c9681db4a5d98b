"""What people read: reports in a terminal, report pages, and the reader of scored trajectories.

browse_page     scored attempts joined with their trajectories, the most confident mistakes first; the reader of scored
                trajectories as one HTML file
browse_server   the same over HTTP on this machine, for tables of any size
html            a page that loads nothing: text escaped, data and code embedded, a policy that forbids the rest
plots           small figures as SVG
report_figures  the figures of a report: best of k, reliability, score distributions, risk and coverage
report_page     a report as one HTML file
report_tables   a report as tables in a terminal
"""
