"""The data types of the project. Imports no other folder of it, and of third parties mainly pydantic."""
