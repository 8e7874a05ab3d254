"""What keeps the service from doing harm, and nodes out of use: drains, holds, anomalies."""
