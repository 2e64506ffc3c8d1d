// Package plannerpb is planner.proto in Go. The Python version is contrib/plugins/python/planner_pb2.py.
package plannerpb

//go:generate sh generate.sh
