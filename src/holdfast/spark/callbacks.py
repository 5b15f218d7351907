"""The connection over which Spark's query thread calls back into Python.

py4j opens one per JVM thread, with a Python thread at its other end, and keeps it after the JVM thread has ended: each
start of a query would leak two sockets and a thread. So the connection of a query is closed after the query has ended.
Best effort: with an unknown version of py4j it stays open.
"""

from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject
from pyspark import SparkContext

from holdfast.job_log import log


def port_of_this_callback(context: SparkContext) -> int | None:
    """Identifies the connection that carries the current call from the JVM."""
    gateway: Any = context._gateway
    try:
        connection = gateway._gateway_client.get_thread_connection()
        return None if connection is None else int(connection.socket.getpeername()[1])
    except Exception as error:
        log.debug("could not identify the connection of a callback: %s", error)
        return None


def close_callback(context: SparkContext, port: int) -> None:
    """Close that connection at both ends. The JVM thread that used it must have ended."""
    gateway: Any = context._gateway
    if not isinstance(gateway, ClientServer):
        return  # without ClientServer, threads share connections
    try:
        client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
        # Python never takes the JVM's lock: this process may end at any moment, and then the lock would never be
        # released.
        for connection in list(_field(client, "connections").toArray()):
            socket = connection.getSocket() if connection is not None else None
            if socket is not None and socket.getLocalPort() == port:
                client.connectionStopped(connection)  # removes it from the list, under the lock
                connection.shutdown()
    except Exception as error:
        log.debug("could not close the connection of a callback: %s", error)


def _field(client: Any, name: str) -> Any:
    field = client.getClass().getSuperclass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(client)
