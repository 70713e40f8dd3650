"""Chat templates in training and evaluation: trainings times evaluation formats, and which differences are real."""
