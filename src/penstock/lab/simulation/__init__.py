"""Questions about a trace on machines, memories and hosts, and their answers.

`words` is the table of what a person may ask, `worded` makes a `question` of it, which makes points; `play` plays them
and gives rows. Below them are many memories (`memory`), hosts (`cluster`) and dedicated servers (`servers`). The price
and the play of one memory are in `penstock.scheme.play`. Nothing is imported here, so that the closed forms work where
the engine is not built.
"""
