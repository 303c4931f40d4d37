"""The terminal face of mini-agent: what a person sees, and the keys they press.

Read in this order; each file knows one thing and imports only from those above it:

    safe.py        foreign text made harmless for a terminal
    cells.py       how many columns a text takes; styled spans, cutting, wrapping
    interrupts.py  Ctrl-C and the keyboard while a reply runs
    tables.py      rows and columns in a given width
    screen.py      what this terminal can do; printing lines and tables to it
    meter.py       the words and numbers of `ctx≈ 1,234/8,000 (15%) · compact×2`
    inline.py      bold, code and links inside a line of Markdown
    highlight.py   colors for one line of code at a time
    markdown.py    a growing reply, split into lines that are finished and a tail that is not
    status.py      the few rows at the bottom that are redrawn while a reply runs
    replies.py     a reply while it comes in: styled, or as its source
    render.py      the events of a turn, shown
    repl.py        the loop: read a message, handle it, put back what failed
    prompt.py      the prompt in a terminal: keys, toolbar, completion, input history
    readers.py     the prompt where there is no such terminal: a pipe, a dumb one, a screen reader
    editor.py      text in the person's own editor
    shell.py       what a typed line does; commands/ has the slash commands

Nothing above shell.py talks to a model or decides what is in the context.
"""
