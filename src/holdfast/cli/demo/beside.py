"""What each act does to plain Spark, and one sentence about what became of it. Nothing here decides whether the demo
held; without plain Spark beside it nothing happens."""

from holdfast.cli.demo.show import Show


def ran(show: Show) -> None:
    if show.plain is not None:
        show.awhile(lambda: show.plain_score.present > 0)
        show.tell_plain("Spark's own sink and checkpoint directory")


def crash(show: Show) -> float:
    if show.plain is not None:
        show.plain.kill()
        show.plain.start()
    return show.now()


def came_back(show: Show, crashed: float) -> None:
    if (plain := show.plain) is not None:
        before = plain.batch
        back = show.awhile(lambda: plain.batch > before)
        words = f"back in {show.now() - crashed:.0f} s" if back else "not back yet"
        show.tell_plain(f"{words}, its checkpoint directory was not on the lost disk")


def store_away(show: Show) -> int:
    if show.plain is None:
        return 0
    show.plain.store_away()
    return show.plain.deaths


def store_back(show: Show, deaths: int) -> None:
    if (plain := show.plain) is None:
        return
    plain.store_back()
    if plain.deaths > deaths:
        show.tell_plain(f"the query died ({plain.cause()})")
    if not plain.running:
        plain.start()


def second_deployment(show: Show) -> None:
    if (plain := show.plain) is None:
        return
    deaths, began = plain.deaths, show.now()
    plain.start()
    if show.awhile(lambda: plain.deaths > deaths):
        show.tell_plain(f"both ran until, after {show.now() - began:.0f} s, one died ({plain.cause()})")
    else:
        show.tell_plain("both run")
    if not plain.running:
        plain.start()


def redeploy(show: Show) -> None:
    if show.plain is not None:
        show.plain.stop()
        show.plain.start()


def computed_wrongly(show: Show) -> None:
    if show.plain is not None:
        show.awhile(lambda: show.plain_score.wrong > 0)
        show.tell_plain("started without a word")


def stayed_wrong(show: Show) -> None:
    if show.plain is not None:
        show.tell_plain("runs the right query again, and what is wrong stays")


def finished(show: Show) -> None:
    if (plain := show.plain) is not None:
        show.awhile(lambda: not plain.running or _complete(show))
        show.tell_plain("at the end of the input")
        plain.stop()


def _complete(show: Show) -> bool:
    """The table reaches the last minute of the answer."""
    return show.plain_score.expected >= show.answered
