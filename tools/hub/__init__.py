"""Models and datasets: fetched from hubs, stored whole."""
