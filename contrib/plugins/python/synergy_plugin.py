"""A planner plugin for synergy-slurmd in Python: serve(decide) is all that there is.

decide(request) gets a planner_pb2.PlanRequest and returns a planner_pb2.PlanResponse; planner.proto says what is in them. It needs
Debian's python3-grpcio and python3-protobuf, or grpcio and protobuf from anywhere else.
"""

import os
import sys
import tempfile
import threading
import traceback
from concurrent import futures

import grpc

import planner_pb2

VERSION = 1  # of the protocol
MAX_MESSAGE = 256 << 20


def serve(decide):
    """Answers the daemon until it is gone. What decide prints goes to the daemon's log."""
    if os.environ.get("SYNERGY_PLUGIN") != "planner":
        sys.exit("this is a planner plugin: synergy-slurmd --planner-plugin starts it")
    announce, sys.stdout = sys.stdout, sys.stderr  # the first line is for the daemon, and nothing else
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=2),
        options=[("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)],
    )
    one_at_a_time = threading.Lock()

    def plan(request, context):
        with one_at_a_time:
            try:
                return decide(request).SerializeToString()
            except Exception as wrong:
                traceback.print_exc()  # gRPC would keep it to itself
                context.abort(grpc.StatusCode.INTERNAL, f"{type(wrong).__name__}: {wrong}")

    method = grpc.unary_unary_rpc_method_handler(
        plan,
        request_deserializer=planner_pb2.PlanRequest.FromString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("synergy.planner.v1.Planner", {"Plan": method}),))
    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp()
    socket = os.path.join(folder, "planner.sock")
    server.add_insecure_port("unix:" + socket)
    server.start()
    print(f"1|{VERSION}|unix|{socket}|grpc", file=announce, flush=True)
    server.wait_for_termination()
