"""What the project is about: the nouns. Imports nothing of the project, pydantic only from outside."""
