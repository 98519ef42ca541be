"""The explorer: what penstock computes, seen, changed and compared in a browser on this machine.

A `State` is the content of a page and its query string. `Engine` answers it with the functions of `penstock simulate`;
`views` turn the answers into tables and drawings; `app` serves them to this machine only.
"""
