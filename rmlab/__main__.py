"""`python -m rmlab` is `rmlab`."""

from rmlab.cli import main

if __name__ == "__main__":
    main()
