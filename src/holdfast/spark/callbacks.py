"""The connection over which Spark's query thread calls Python back.

There is one per thread of the JVM, with a thread of Python at its other end, and py4j keeps it when the JVM's thread
has ended: every life of a query would leave two sockets and a thread behind. So the one that a query used is closed
after its end. Best effort: where py4j is not as it is known here, it stays.
"""

from typing import Any

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject
from pyspark import SparkContext

from holdfast.job_log import log


def port_of_this_callback(context: SparkContext) -> int | None:
    """Tells apart the connection that the current call from the JVM came over."""
    gateway: Any = context._gateway
    try:
        connection = gateway._gateway_client.get_thread_connection()
        return None if connection is None else int(connection.socket.getpeername()[1])
    except Exception as error:
        log.debug("the connection of a callback is not known: %s", error)
        return None


def close_callback(context: SparkContext, port: int) -> None:
    """Close that connection at both ends. The JVM's thread that used it must have ended."""
    gateway: Any = context._gateway
    if not isinstance(gateway, ClientServer):
        return  # then threads share connections
    try:
        client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
        # The JVM's lock is never held from here: this process may end at any moment, and nobody could give it back.
        for connection in list(_field(client, "connections").toArray()):
            socket = connection.getSocket() if connection is not None else None
            if socket is not None and socket.getLocalPort() == port:
                client.connectionStopped(connection)  # takes it off the list, under the lock
                connection.shutdown()
    except Exception as error:
        log.debug("the connection of a callback was not closed: %s", error)


def _field(client: Any, name: str) -> Any:
    field = client.getClass().getSuperclass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(client)
