"""The front of the service: HTTP for tenants and operators, state, uploads and jobs.

No process here evaluates, encrypts or decrypts: jobs go to `penstock.service.work`.
"""
