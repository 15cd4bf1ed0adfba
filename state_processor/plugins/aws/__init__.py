"""AWS: Kinesis and DynamoDB streams, and the sinks of Kinesis, Firehose, SQS and DynamoDB."""
