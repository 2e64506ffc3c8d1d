// Package plannerpb is planner.proto in Go. Python's is contrib/plugins/python/planner_pb2.py.
package plannerpb

//go:generate sh generate.sh
