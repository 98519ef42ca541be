"""In-storage processing: queries over encrypted databases inside a drive, the drive page by page (`flash`), the machine
beside its channels (`machine`), and designs of all three over area and power (`design_space`)."""
