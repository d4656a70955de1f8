"""Apache Kafka: clients, brokers and controllers."""

NAME = "kafka"
PORTS = (9092, 9093, 9094)
