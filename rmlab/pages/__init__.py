"""Output for people: reports in a terminal, report pages, and the browser of scored trajectories.

browse          scored attempts with their trajectories, worst mistakes first: as a page, or over HTTP
html            a page that loads nothing: text escaped, data and code embedded, a policy that forbids the rest
plots           small figures as SVG; the figures of a report: best of k, reliability, score distributions, risk and coverage
report_page     a report as one HTML file; the reliability picture among a run's artifacts
report_tables   a report as tables in a terminal
"""
