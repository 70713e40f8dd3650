"""Approvals: what a person is shown before a plan or a launch, and the answer."""
