"""The rows of the table of torn files: how a file can end, whether it is published then, and what is told if not.

Needs no package but Tidegate, so that every version of Python that is installed can run it: `python torn_rows.py` checks all
rows, and prints those that are wrong. With `--table`, it prints what each row says.
"""

import asyncio
import contextlib
import gc
import gzip
import io
import logging
import operator
import secrets
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
import zipfile
from pathlib import Path
from typing import NamedTuple

import tidegate
import tidegate.aio

KEY = "a"


class Row(NamedTuple):
    run: object
    is_published: bool
    #: The warning, if the row has one: how to publish.
    warns: type | None
    #: The exception that the row ends with.
    raises: type | None
    is_told: bool


ROWS = {}
HOW = tidegate.NotPublishedWarning
FORGOTTEN = ResourceWarning


def row(is_published=False, warns=None, raises=None, is_told=None):
    def add(run):
        ROWS[run.__name__] = Row(run, is_published, warns, raises, not is_published if is_told is None else is_told)
        return run

    return add


class Trouble(Exception):
    pass


class Earlier(Exception):
    pass


def text(store):
    return tidegate.open(f"{store.url}/{KEY}", "w")


# `with` blocks of the file.


@row(is_published=True)
def a_block_that_ends(store):
    with store.writer(KEY) as file:
        file.write(b"1")


@row(raises=Trouble)
def a_block_that_an_exception_ends(store):
    with store.writer(KEY) as file:
        file.write(b"1")
        raise Trouble


@row(raises=Trouble)
def a_text_block_that_an_exception_ends(store):
    with text(store) as file:
        file.write("1")
        raise Trouble


@row(warns=HOW, raises=SystemExit)
def a_block_that_exit_0_ends(store):
    with store.writer(KEY):
        sys.exit(0)


@row(warns=HOW, raises=SystemExit)
def a_text_block_that_exit_ends(store):
    with text(store):
        sys.exit()


@row(raises=SystemExit)
def a_block_that_exit_3_ends(store):
    with store.writer(KEY):
        sys.exit(3)


@row(warns=HOW, raises=SystemExit)
def an_exit_stack_that_exit_0_ends(store):
    with contextlib.ExitStack() as stack:
        stack.enter_context(store.writer(KEY))
        sys.exit(0)


@row(raises=KeyboardInterrupt)
def a_block_that_ctrl_c_ends(store):
    with store.writer(KEY):
        raise KeyboardInterrupt


def consumer(opened):
    with opened as file:
        while True:
            file.write((yield))


@row(warns=HOW)
def a_generator_that_is_closed(store):
    running = consumer(store.writer(KEY))
    next(running)
    running.send(b"1")
    running.close()


@row(warns=HOW)
def a_generator_with_a_text_file_that_is_closed(store):
    running = consumer(text(store))
    next(running)
    running.send("1")
    running.close()


@row(warns=HOW)
def a_generator_that_is_dropped(store):
    next(consumer(store.writer(KEY)))
    gc.collect()


# `with` blocks that end well while an exception is in flight that the file's opening has not seen.


@row(is_published=True)
def a_block_that_ends_below_an_except(store):
    file = store.writer(KEY)
    try:
        raise Trouble
    except Trouble:
        with file:
            file.write(b"1")


@row(is_published=True)
def a_block_that_ends_in_a_finally(store):
    file = store.writer(KEY)
    try:
        try:
            raise Trouble
        finally:
            with file:
                file.write(b"1")
    except Trouble:
        pass


def in_an_except(generator):
    """Begins a generator, and has an `except` drive it to its end."""
    next(generator)
    try:
        raise Trouble
    except Trouble:
        for _ in generator:
            pass


@row(is_published=True)
def a_generators_block_that_ends_in_an_except(store):
    def lines():
        with store.writer(KEY) as file:
            for line in (b"1", b"2"):
                file.write(line)
                yield

    in_an_except(lines())


@row(is_published=True)
def a_generators_text_block_that_ends_in_an_except(store):
    def lines():
        with text(store) as file:
            for line in "12":
                file.write(line)
                yield

    in_an_except(lines())


@row(is_published=True)
def a_generators_exit_stack_that_ends_in_an_except(store):
    def lines():
        with contextlib.ExitStack() as stack:
            file = store.writer(KEY)
            stack.callback(file.close)
            yield

    in_an_except(lines())


@row(is_published=True)
def a_generators_closing_that_ends_in_an_except(store):
    def lines():
        with contextlib.closing(store.writer(KEY)):
            yield

    in_an_except(lines())


@row(is_published=True)
def a_generators_context_manager_that_ends_in_an_except(store):
    @contextlib.contextmanager
    def opened():
        file = store.writer(KEY)
        try:
            yield file
        finally:
            file.close()

    def lines():
        with opened():
            yield

    in_an_except(lines())


@row(warns=HOW)
def a_generators_block_of_a_native_wrapper_that_ends_in_an_except(store):
    """Nothing tells this block from a call of `close`."""

    def lines():
        with io.BufferedWriter(store.writer(KEY)) as file:
            file.write(b"1")
            yield

    in_an_except(lines())


def archive(store):
    return zipfile.ZipFile(store.writer(KEY), "w")


for name, opened in {"gzip": lambda store: gzip.open(store.writer(KEY), "wb"), "a_zip_file": archive}.items():

    def in_a_generator(store, opened=opened):
        def lines():
            with opened(store):
                yield

        in_an_except(lines())

    def below_an_except(store, opened=opened):
        file = opened(store)
        try:
            raise Trouble
        except Trouble:
            with file:
                pass

    in_a_generator.__name__ = f"a_generators_block_of_{name}_that_ends_in_an_except"
    below_an_except.__name__ = f"a_block_of_{name}_that_ends_below_an_except"
    row(is_published=True)(in_a_generator)
    row(is_published=True)(below_an_except)


@row(is_published=True)
def an_asyncio_block_that_ends_below_an_except(store):
    async def main():
        file = await tidegate.aio.Store(store.url).writer(KEY)
        try:
            raise Trouble
        except Trouble:
            async with file:
                await file.write(b"1")

    asyncio.run(main())


@row(raises=Trouble)
def an_asyncio_block_that_an_exception_ends(store):
    async def main():
        async with tidegate.aio.open(f"{store.url}/{KEY}", "wb"):
            raise Trouble

    asyncio.run(main())


# `close()` while an exception is in flight.


@row(warns=HOW)
def close_in_an_except(store):
    file = store.writer(KEY)
    try:
        raise Trouble
    except Trouble:
        file.close()


@row(warns=HOW)
def close_of_a_text_file_in_an_except(store):
    file = text(store)
    file.write("1")
    try:
        raise Trouble
    except Trouble:
        file.close()


@row(warns=HOW)
def close_in_an_except_that_another_file_was_opened_in(store):
    """A sink that opens a part in one `except`, and closes it in another."""
    file = None
    for _ in range(2):
        try:
            raise Trouble
        except Trouble:
            if file is None:
                file = store.writer(KEY)
            else:
                file.close()


@row(warns=HOW)
def asyncio_close_in_an_except(store):
    async def main():
        file = await tidegate.aio.Store(store.url).writer(KEY)
        try:
            raise Trouble
        except Trouble:
            await file.close()

    asyncio.run(main())


async def in_a_task(closing):
    await asyncio.create_task(closing)


async def in_a_task_group(closing):
    async with asyncio.TaskGroup() as group:
        group.create_task(closing)


#: The ways to have another task run a coroutine.
TASKS = {
    "create_task": in_a_task,
    "gather": lambda closing: asyncio.gather(closing),
    "shield": lambda closing: asyncio.shield(closing),
    "a_task_group": in_a_task_group,
    "wait_for": lambda closing: asyncio.wait_for(closing, 5),
}


async def async_file(store):
    file = await tidegate.aio.Store(store.url).writer(KEY)
    await file.write(b"1")
    return file


def add_asyncio_closes(name, hand):
    def after_an_exception(store):
        async def main():
            file = await async_file(store)
            try:
                raise Trouble
            finally:
                await hand(file.close())

        asyncio.run(main())

    def in_an_except(store):
        async def main():
            file = await async_file(store)
            try:
                raise Trouble
            except Trouble:
                await hand(file.close())

        asyncio.run(main())

    def after_a_cancellation(store):
        async def write():
            file = await async_file(store)
            try:
                await asyncio.sleep(60)
            finally:
                await hand(file.close())

        async def main():
            writing = asyncio.create_task(write())
            await asyncio.sleep(0.05)
            writing.cancel()
            await writing

        asyncio.run(main())

    def by_aexit_after_an_exception(store):
        async def main():
            file = await async_file(store)
            try:
                raise Trouble
            finally:
                await hand(file.__aexit__(None, None, None))

        asyncio.run(main())

    def by_aexit_of_an_opening_after_an_exception(store):
        async def main():
            opening = tidegate.aio.open(f"{store.url}/{KEY}", "wb")
            await opening.__aenter__()
            try:
                raise Trouble
            finally:
                await hand(opening.__aexit__(None, None, None))

        asyncio.run(main())

    def at_a_good_end(store):
        async def main():
            file = await async_file(store)
            await hand(file.close())

        asyncio.run(main())

    def by_aexit_at_a_good_end(store):
        async def main():
            file = await async_file(store)
            try:
                pass
            finally:
                await hand(file.__aexit__(None, None, None))

        asyncio.run(main())

    def named(run):
        run.__name__ = f"asyncio_close_in_{name}_{run.__name__}"
        return run

    row(warns=HOW, raises=Trouble)(named(after_an_exception))
    row(warns=HOW)(named(in_an_except))
    row(warns=HOW, raises=asyncio.CancelledError)(named(after_a_cancellation))
    row(warns=HOW, raises=Trouble)(named(by_aexit_after_an_exception))
    row(warns=HOW, raises=Trouble)(named(by_aexit_of_an_opening_after_an_exception))
    row(is_published=True)(named(at_a_good_end))
    row(is_published=True)(named(by_aexit_at_a_good_end))


for name, hand in TASKS.items():
    add_asyncio_closes(name, hand)


@row(warns=FORGOTTEN)
def an_asyncio_file_that_a_finalizer_closes_in_a_task(store):
    class Keeper:
        def __init__(self, file):
            self.file = file

        def __del__(self):
            closings.append(asyncio.ensure_future(self.file.close()))

    closings = []

    async def main():
        keeper = Keeper(await async_file(store))
        del keeper
        await asyncio.gather(*closings)

    asyncio.run(main())


@row(warns=HOW, raises=Trouble)
def close_in_a_finally(store):
    """What is in flight may end there: `close` cannot know."""
    file = store.writer(KEY)
    try:
        raise Trouble
    finally:
        file.close()


@row(is_published=True)
def close_in_the_except_that_has_opened(store):
    try:
        raise Trouble
    except Trouble:
        file = store.writer(KEY)
        file.close()


@row(is_published=True)
def close_in_an_except_around_the_one_that_has_opened(store):
    try:
        raise Trouble
    except Trouble:
        try:
            raise Earlier
        except Earlier:
            file = store.writer(KEY)
        file.close()


@row(is_published=True)
def close_in_an_except_that_a_bare_raise_leads_to(store):
    try:
        raise Trouble
    except Trouble:
        file = store.writer(KEY)
        try:
            raise
        except Trouble:
            file.close()


@row(warns=HOW, raises=Trouble)
def close_in_a_finally_after_the_exception_of_the_opening_is_raised_again(store):
    try:
        raise Trouble
    except Trouble as error:
        file = store.writer(KEY)
        try:
            raise error
        finally:
            file.close()


@row(warns=HOW)
def close_in_an_except_of_an_exception_that_an_earlier_except_has_kept(store):
    kept = Trouble()
    try:
        raise kept
    except Trouble:
        file = store.writer(KEY)
    try:
        raise kept
    except Trouble:
        file.close()


@row(is_published=True)
def close_in_the_except_that_has_opened_once_the_traceback_is_let_go_of(store):
    try:
        raise Trouble
    except Trouble as error:
        file = store.writer(KEY)
        error.__traceback__ = None
        file.close()


@row(is_published=True)
def close_after_an_except(store):
    file = store.writer(KEY)
    try:
        raise Trouble
    except Trouble:
        pass
    file.close()


@row(is_published=True)
def publish_in_an_except(store):
    file = store.writer(KEY)
    try:
        raise Trouble
    except Trouble:
        file.publish()


@row(is_published=True)
def publish_of_a_text_file_in_an_except(store):
    file = text(store)
    file.write("1")
    try:
        raise Trouble
    except Trouble:
        file.publish()
        file.publish()
    assert store.get(KEY) == b"1"
    file.close()


@row(is_told=False)
def discard_of_a_text_file(store):
    file = text(store)
    file.write("1")
    file.discard()
    file.close()


@row(is_told=False)
def discard(store):
    store.writer(KEY).discard()


@row(is_told=False)
def discard_in_an_except(store):
    file = store.writer(KEY)
    try:
        raise Trouble
    except Trouble:
        file.discard()
        file.close()


@row(raises=OSError)
def a_write_that_fails_in_a_block(store):
    with store.writer(KEY, exact_size=1) as file:
        file.write(b"12")


# `ExitStack.close()`, which calls `__exit__` as a block does that ends well.


def stack_closed_in_a_finally(enter):
    def run(store):
        stack = contextlib.ExitStack()
        enter(stack, store)
        try:
            raise Trouble
        finally:
            stack.close()

    return run


@contextlib.contextmanager
def opened_by_a_generator(store):
    with store.writer(KEY) as file:
        yield file


ENTERED = {
    "the_file": lambda stack, store: stack.enter_context(store.writer(KEY)),
    "a_text_file": lambda stack, store: stack.enter_context(text(store)),
    "close": lambda stack, store: stack.callback(store.writer(KEY).close),
    "closing": lambda stack, store: stack.enter_context(contextlib.closing(store.writer(KEY))),
    "gzip": lambda stack, store: stack.enter_context(gzip.open(store.writer(KEY), "wb")),
    "a_stack": lambda stack, store: stack.enter_context(contextlib.ExitStack()).enter_context(store.writer(KEY)),
    "a_generator": lambda stack, store: stack.enter_context(opened_by_a_generator(store)),
}
for name, enter in ENTERED.items():
    run = stack_closed_in_a_finally(enter)
    run.__name__ = f"an_exit_stack_with_{name}_is_closed_in_a_finally"
    row(warns=HOW, raises=Trouble)(run)


# `__exit__` that is called by its name, and not by a `with` block.

EXITED = {
    "the_file": lambda store: store.writer(KEY),
    "a_text_file": text,
    "a_buffer": lambda store: io.BufferedWriter(store.writer(KEY)),
    "gzip": lambda store: gzip.open(store.writer(KEY), "wb"),
    "a_stack": lambda store: stack_with(store.writer(KEY)),
    "a_generator": opened_by_a_generator,
}


def stack_with(file):
    stack = contextlib.ExitStack()
    stack.enter_context(file)
    return stack


def entered_by_name(opened, trouble):
    def run(store):
        file = opened(store)
        file.__enter__()
        try:
            if trouble is not None:
                raise trouble
        finally:
            file.__exit__(None, None, None)

    return run


for name, opened in EXITED.items():
    run = entered_by_name(opened, Trouble)
    run.__name__ = f"exit_of_{name}_is_called_in_a_finally_after_an_exception"
    row(warns=HOW, raises=Trouble)(run)
    run = entered_by_name(opened, None)
    run.__name__ = f"exit_of_{name}_is_called_in_a_finally"
    row(is_published=True)(run)


def ended_by_its_owner(opened, trouble):
    class Owner:
        def __init__(self, store):
            self.file = opened(store)

        def __enter__(self):
            self.file.__enter__()

        def __exit__(self, *error):
            self.file.__exit__(None, None, None)

    def run(store):
        with Owner(store):
            if trouble is not None:
                raise trouble

    return run


for name, opened in EXITED.items():
    run = ended_by_its_owner(opened, Trouble)
    run.__name__ = f"exit_of_{name}_is_called_by_that_of_its_owner_after_an_exception"
    row(raises=Trouble)(run)
    run = ended_by_its_owner(opened, None)
    run.__name__ = f"exit_of_{name}_is_called_by_that_of_its_owner"
    row(is_published=True)(run)


@row(warns=HOW, raises=Trouble)
def a_close_that_calls_its_own_exit(store):
    class Sink:
        def __init__(self):
            self.file = store.writer(KEY)

        def __exit__(self, *error):
            self.file.__exit__(*error)

        def close(self):
            self.__exit__(None, None, None)

    sink = Sink()
    try:
        raise Trouble
    finally:
        sink.close()


@row(is_published=True)
def a_block_whose_exit_calls_that_of_its_file_ends_below_an_except(store):
    class Sink:
        def __enter__(self):
            self.file = store.writer(KEY)
            return self

        def __exit__(self, *error):
            self.file.__exit__(*error)

    def write():
        with Sink():
            yield

    writing = write()
    next(writing)
    try:
        raise Trouble
    except Trouble:
        next(writing, None)


@row(warns=HOW, raises=Trouble)
def aexit_is_called_in_a_finally_after_an_exception(store):
    async def write():
        file = await tidegate.aio.Store(store.url).writer(KEY)
        try:
            raise Trouble
        finally:
            await file.__aexit__(None, None, None)

    asyncio.run(write())


class Keeper:
    """Keeps its file in a stack, which it closes."""

    def __init__(self, store):
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(store.writer(KEY))

    def close(self):
        self.stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


@row(raises=Trouble)
def an_exception_ends_the_block_of_an_object_with_a_stack(store):
    with Keeper(store):
        raise Trouble


@row(is_published=True)
def the_block_of_an_object_with_a_stack_ends_below_an_except(store):
    keeper = Keeper(store)
    try:
        raise Trouble
    except Trouble:
        with keeper:
            pass


@row(raises=Trouble)
def an_exception_ends_closing_of_an_object_with_a_stack(store):
    with contextlib.closing(Keeper(store)):
        raise Trouble


@row(warns=FORGOTTEN)
def an_object_closes_its_stack_when_it_is_dropped(store):
    class Owner(Keeper):
        def __del__(self):
            self.close()

    Owner(store)


@row(is_published=True)
def an_exit_stack_is_closed(store):
    stack = contextlib.ExitStack()
    stack.enter_context(store.writer(KEY))
    stack.close()


@row(is_published=True)
def an_exit_stack_is_closed_in_the_except_that_has_opened(store):
    try:
        raise Trouble
    except Trouble:
        stack = contextlib.ExitStack()
        stack.enter_context(store.writer(KEY))
        stack.close()


@row(is_published=True)
def a_block_ends_in_a_callback_of_a_stack_that_is_closed_in_an_except(store):
    def write():
        with store.writer(KEY) as file:
            file.write(b"1")

    stack = contextlib.ExitStack()
    stack.callback(write)
    try:
        raise Trouble
    except Trouble:
        stack.close()


@row(is_published=True)
def an_exit_stack_holds_an_exception_back_from_the_file(store):
    with contextlib.ExitStack() as stack:
        stack.enter_context(store.writer(KEY))
        stack.enter_context(contextlib.suppress(Trouble))
        raise Trouble


@row(is_published=True)
def an_exit_stack_in_another_holds_an_exception_back_from_the_file(store):
    with contextlib.ExitStack() as outer:
        stack = outer.enter_context(contextlib.ExitStack())
        stack.callback(store.writer(KEY).close)
        stack.enter_context(contextlib.suppress(Trouble))
        raise Trouble


@row(warns=HOW, raises=Trouble)
def an_asyncio_exit_stack_is_closed_in_a_finally(store):
    async def main():
        stack = contextlib.AsyncExitStack()
        await stack.enter_async_context(tidegate.aio.open(f"{store.url}/{KEY}", "wb"))
        try:
            raise Trouble
        finally:
            await stack.aclose()

    asyncio.run(main())


@row(raises=OSError)
def close_of_a_file_that_is_too_short(store):
    file = store.writer(KEY, exact_size=2)
    file.write(b"1")
    file.close()


@row(raises=OSError)
def a_text_block_of_a_file_that_is_too_short(store):
    with tidegate.open(f"{store.url}/{KEY}", "w", exact_size=2) as file:
        file.write("1")


@row(raises=OSError)
def an_asyncio_block_of_a_file_that_is_too_short(store):
    async def main():
        async with tidegate.aio.open(f"{store.url}/{KEY}", "wb", exact_size=2) as file:
            await file.write(b"1")

    asyncio.run(main())


# Around the file.


@row(raises=Trouble)
def the_block_of_a_native_wrapper_that_an_exception_ends(store):
    with io.BufferedWriter(store.writer(KEY)) as file:
        file.write(b"1")
        raise Trouble


@row(raises=Trouble)
def a_context_manager_that_an_exception_ends(store):
    @contextlib.contextmanager
    def opened():
        file = store.writer(KEY)
        try:
            yield file
        except Trouble:
            file.discard()
            raise
        file.close()

    with opened() as file:
        file.write(b"1")
        with contextlib.closing(file):
            raise Trouble


@row(raises=Trouble)
def an_exit_stack_that_an_exception_ends(store):
    with contextlib.ExitStack() as stack:
        file = store.writer(KEY)
        stack.callback(file.close)
        raise Trouble


def earlier_exception(block):
    """Ends a block with an exception that was in flight before its file was opened."""

    def run(store):
        try:
            raise Earlier
        except Earlier:
            with block(store):
                raise

    return run


def closing_by_callback(store):
    stack = contextlib.ExitStack()
    stack.callback(store.writer(KEY).close)
    return stack


for name, block in {
    "of_the_file": lambda store: store.writer(KEY),
    "of_a_text_file": text,
    "of_a_native_wrapper": lambda store: io.BufferedWriter(store.writer(KEY)),
    "of_gzip": lambda store: gzip.open(store.writer(KEY), "wb"),
    "of_closing": lambda store: contextlib.closing(store.writer(KEY)),
    "of_an_exit_stack": closing_by_callback,
}.items():
    run = earlier_exception(block)
    run.__name__ = f"a_block_{name}_that_an_earlier_exception_ends"
    row(raises=Earlier)(run)


@row(is_published=True)
def the_block_of_a_native_wrapper_in_the_except_that_has_opened(store):
    try:
        raise Trouble
    except Trouble:
        with io.BufferedWriter(store.writer(KEY)) as file:
            file.write(b"1")


@row(raises=Trouble)
def an_exception_in_an_exit_that_was_called_without_one(store):
    class Block:
        def __enter__(self):
            self.file = store.writer(KEY)

        def __exit__(self, *error):
            try:
                raise Trouble
            finally:
                with contextlib.suppress(RuntimeError):
                    self.file.close()

    with warnings.catch_warnings():
        # `close` cannot know that the exception goes on.
        warnings.simplefilter("ignore")
        with Block():
            pass


def exits():
    """Functions `__exit__` that treat their arguments in their own ways, and close the file."""

    def deletes(self, kind, error, traceback):
        del kind, error, traceback
        self.file.close()

    def takes_all(*given):
        given[0].file.close()

    def has_an_option(self, *error, quiet=False):
        self.file.close()

    def rebinds(self, kind, error, traceback):
        kind, error, traceback = None, None, None
        self.told = kind, error, traceback
        self.file.close()

    return deletes, takes_all, has_an_option, rebinds


class Holder:
    def __init__(self, store):
        self.file = store.writer(KEY)

    def __enter__(self):
        return self


def add_exit(name, exit):
    # Python knows the function by the name in its code.
    exit.__code__ = exit.__code__.replace(co_name="__exit__")
    kind = type("Sink", (Holder,), {"__exit__": exit})

    def stopped(store):
        with kind(store):
            raise Trouble

    def ended(store):
        sink = kind(store)
        try:
            raise Trouble
        except Trouble:
            with sink:
                pass

    def stopped_by_an_earlier_one(store):
        try:
            raise Earlier
        except Earlier:
            with kind(store):
                raise

    def named(run):
        run.__name__ = f"an_exit_that_{name}_{run.__name__}"
        return run

    def stopped_in_a_stack(store):
        with contextlib.ExitStack() as stack:
            stack.enter_context(kind(store))
            raise Trouble

    def spared_in_a_stack(store):
        with contextlib.ExitStack() as stack:
            stack.enter_context(kind(store))
            stack.enter_context(contextlib.suppress(Trouble))
            raise Trouble

    row(raises=Trouble)(named(stopped))
    row(is_published=True)(named(ended))
    row(raises=Earlier)(named(stopped_by_an_earlier_one))
    row(raises=Trouble)(named(stopped_in_a_stack))
    row(is_published=True)(named(spared_in_a_stack))


for exit in exits():
    add_exit(exit.__name__, exit)


class AsyncSink:
    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, traceback):
        del kind, error, traceback
        await self.file.close()


@row(warns=HOW, raises=Trouble)
def an_asyncio_exit_that_deletes_its_arguments(store):
    async def main():
        sink = AsyncSink()
        sink.file = await tidegate.aio.Store(store.url).writer(KEY)
        async with sink:
            raise Trouble

    asyncio.run(main())


@row(is_published=True)
def an_asyncio_exit_that_deletes_its_arguments_at_a_good_end(store):
    async def main():
        sink = AsyncSink()
        sink.file = await tidegate.aio.Store(store.url).writer(KEY)
        async with sink:
            pass

    asyncio.run(main())


# Files that nobody closes.


@row(warns=FORGOTTEN)
def a_file_that_is_dropped(store):
    file = store.writer(KEY)
    file.write(b"1")
    del file


@row(warns=FORGOTTEN)
def a_text_file_that_is_dropped(store):
    file = text(store)
    file.write("1")
    del file


@row(warns=FORGOTTEN)
def a_file_below_a_buffer_that_is_dropped(store):
    file = io.BufferedWriter(store.writer(KEY))
    file.write(b"1")
    del file


@row(warns=FORGOTTEN)
def a_file_below_a_python_wrapper_that_is_dropped(store):
    class Wrapper(io.BufferedIOBase):
        def __init__(self):
            self.file = store.writer(KEY)

        def close(self):
            if not self.closed:
                self.file.close()
            super().close()

    wrapper = Wrapper()
    wrapper.file.write(b"1")
    del wrapper


def forwarding(base):
    """A class of a program that wraps a file in Python, and closes it with itself."""

    class Counting(base):
        def __init__(self, file):
            self.file = file
            self.count = 0

        def readable(self):
            return False

        def writable(self):
            return True

        def seekable(self):
            return False

        def write(self, data):
            taken = self.file.write(data)
            self.count += taken
            return taken

        def close(self):
            if not self.closed:
                super().close()
                self.file.close()

    return Counting


class Duck:
    """As little of a file as a text file needs."""

    def __init__(self, file):
        self.file = file
        self.closed = False
        self.name = "duck"

    def readable(self):
        return False

    def writable(self):
        return True

    def seekable(self):
        return False

    def flush(self):
        pass

    def write(self, data):
        return self.file.write(data)

    def _finish(self):
        self.file.close()

    def close(self):
        if not self.closed:
            self.closed = True
            self._finish()


def text_over(wrap):
    return lambda store: io.TextIOWrapper(wrap(store.writer(KEY)))


def add_python_wrapper(name, opened, half):
    def an_exception_leaves(store):
        def write():
            out = opened(store)
            out.write(half)
            raise Trouble

        try:
            write()
        except Trouble:
            pass
        gc.collect()

    def an_exception_with_a_name_leaves(store):
        def write():
            out = opened(store)
            out.write(half)
            raise Trouble

        try:
            write()
        except Trouble as error:
            assert error is not None

    def a_quiet_block_ends(store):
        def write():
            out = opened(store)
            out.write(half)
            raise Trouble

        with contextlib.suppress(Trouble):
            write()

    def its_name_is_deleted(store):
        out = opened(store)
        out.write(half)
        del out

    def its_name_gets_another_value(store):
        out = opened(store)
        out.write(half)
        out = None
        assert out is None

    def it_is_collected_in_a_cycle(store):
        cycle = [opened(store)]
        cycle[0].write(half)
        cycle.append(cycle)
        del cycle
        gc.collect()

    def it_is_closed(store):
        out = opened(store)
        out.write(half)
        out.close()

    def its_block_ends(store):
        with opened(store) as out:
            out.write(half)

    def it_is_closed_by_a_map(store):
        outs = [opened(store)]
        for _ in map(operator.methodcaller("close"), outs):
            pass

    def named(run):
        run.__name__ = f"{name}_when_{run.__name__}"
        return run

    for dropped in (
        an_exception_leaves,
        an_exception_with_a_name_leaves,
        a_quiet_block_ends,
        its_name_is_deleted,
        its_name_gets_another_value,
        it_is_collected_in_a_cycle,
    ):
        row(warns=FORGOTTEN)(named(dropped))
    for closed in (it_is_closed, its_block_ends, it_is_closed_by_a_map):
        row(is_published=True)(named(closed))


Raw, Buffer = forwarding(io.RawIOBase), forwarding(io.BufferedIOBase)
add_python_wrapper(
    "text_over_a_buffer_over_a_python_file", text_over(lambda file: io.BufferedWriter(Raw(file))), "half"
)
add_python_wrapper("a_buffer_over_a_python_file", lambda store: io.BufferedWriter(Raw(store.writer(KEY))), b"half")
add_python_wrapper("text_over_a_python_buffer", text_over(Buffer), "half")
add_python_wrapper("text_over_something_like_a_file", text_over(Duck), "half")


@row(is_published=True)
def text_over_something_like_a_file_when_a_function_returns(store):
    """Python shows nothing of it; see the README."""

    def write():
        text_over(Duck)(store).write("half")

    write()


class DiscardingDuck(Duck):
    def _dealloc_warn(self, source):
        self.file.discard()


@row(is_told=False)
def text_over_something_that_discards_when_a_function_returns(store):
    def write():
        text_over(DiscardingDuck)(store).write("half")

    write()


# Files below gzip and zipfile, which do not close a file that was opened before.


@row(is_published=True)
def gzip_is_closed_and_has_the_only_reference(store):
    file = gzip.GzipFile(fileobj=store.writer(KEY), mode="wb")
    file.write(b"1")
    file.close()


@row(is_published=True)
def gzip_text_is_closed_and_has_the_only_reference(store):
    file = gzip.open(store.writer(KEY), "wt")
    file.write("1")
    file.close()


@row(is_published=True)
def the_block_of_gzip_ends(store):
    with gzip.open(store.writer(KEY), "wt") as file:
        file.write("1")


@row(is_published=True)
def the_block_of_a_zip_file_ends(store):
    with zipfile.ZipFile(store.writer(KEY), "w") as file:
        file.writestr("a", b"1")


@row(raises=Trouble)
def an_exception_ends_the_block_of_gzip(store):
    with gzip.open(store.writer(KEY), "wb") as file:
        file.write(b"1")
        raise Trouble


@row(raises=Trouble)
def an_exception_ends_the_block_of_gzip_text(store):
    with gzip.open(store.writer(KEY), "wt") as file:
        file.write("1")
        raise Trouble


@row(raises=Trouble)
def an_exception_ends_the_block_of_a_zip_file(store):
    with zipfile.ZipFile(store.writer(KEY), "w") as file:
        file.writestr("a", b"1")
        raise Trouble


@row(warns=HOW)
def gzip_is_closed_in_an_except(store):
    file = gzip.open(store.writer(KEY), "wb")
    try:
        raise Trouble
    except Trouble:
        file.close()


@row(warns=HOW)
def the_generator_of_a_block_of_gzip_is_closed(store):
    running = consumer(gzip.open(store.writer(KEY), "wb"))
    next(running)
    running.send(b"1")
    running.close()


@row(warns=FORGOTTEN)
def gzip_is_dropped(store):
    file = gzip.open(store.writer(KEY), "wb")
    file.write(b"1")
    del file
    gc.collect()


@row(warns=FORGOTTEN)
def gzip_text_is_dropped_by_a_function_that_returns(store):
    def write():
        file = gzip.open(store.writer(KEY), "wt")
        file.write("1")

    write()
    gc.collect()


@row(warns=FORGOTTEN)
def gzip_text_is_dropped_in_a_cycle(store):
    cycle = [gzip.open(store.writer(KEY), "wt")]
    cycle.append(cycle)
    del cycle
    gc.collect()


@row(warns=FORGOTTEN)
def a_zip_file_is_dropped(store):
    file = zipfile.ZipFile(store.writer(KEY), "w")
    file.writestr("a", b"1")
    del file
    gc.collect()


@row(warns=FORGOTTEN)
def gzip_is_closed_and_somebody_else_has_a_reference(store):
    """There may be more to come."""
    file = store.writer(KEY)
    with gzip.open(file, "wb") as wrapper:
        wrapper.write(b"1")
    del file


@row(is_published=True)
def gzip_is_closed_twice_around_one_file(store):
    with store.writer(KEY) as file:
        for _ in range(2):
            with gzip.open(file, "wb") as wrapper:
                wrapper.write(b"1")


@row()
def gzip_cannot_write_its_end(store):
    wrapper = gzip.GzipFile(fileobj=store.writer(KEY, exact_size=15), mode="wb")
    with contextlib.suppress(OSError):
        wrapper.close()


@row(warns=FORGOTTEN)
def a_file_in_a_cycle(store):
    cycle = [store.writer(KEY)]
    cycle.append(cycle)
    del cycle
    gc.collect()


@row(warns=FORGOTTEN)
def a_file_that_is_dropped_with_the_exception_that_has_left_it(store):
    def write():
        file = store.writer(KEY)
        file.write(b"1")
        raise Trouble

    try:
        write()
    except Trouble:
        pass
    gc.collect()


@row(warns=FORGOTTEN)
def an_asyncio_file_that_is_dropped(store):
    async def main():
        file = await tidegate.aio.Store(store.url).writer(KEY)
        await file.write(b"1")

    asyncio.run(main())


@row(warns=FORGOTTEN)
def a_file_that_a_finalizer_closes(store):
    class Keeper:
        def __init__(self):
            self.file = store.writer(KEY)

        def __del__(self):
            self.file.close()

    keeper = Keeper()
    del keeper
    gc.collect()


class Owner:
    """What a finalizer of `weakref` waits for."""


@row(warns=FORGOTTEN)
def a_file_that_a_finalizer_of_weakref_closes(store):
    owner = Owner()
    weakref.finalize(owner, store.writer(KEY).close)
    del owner
    gc.collect()


@row(is_published=True)
def a_file_that_a_finalizer_of_weakref_closes_when_it_is_called(store):
    owner = Owner()
    close = weakref.finalize(owner, store.writer(KEY).close)
    close()


@row()
def a_file_that_is_dropped_after_a_write_has_failed(store):
    file = store.writer(KEY, exact_size=1)
    with contextlib.suppress(OSError):
        file.write(b"12")
    del file


@row(is_published=True)
def close_in_another_thread(store):
    file = store.writer(KEY)
    thread = threading.Thread(target=file.close)
    thread.start()
    thread.join()


#: Programs that write into the file `path`, and end: whether it is published.
PROGRAMS = {
    "a hook closes": ("file = opened(); atexit.register(file.close)", True),
    "a hook closes after an exception": ("file = opened(); atexit.register(file.close); raise ValueError", False),
    "a hook closes a stack after an exception": (
        "stack = contextlib.ExitStack(); stack.enter_context(opened()); atexit.register(stack.close); raise ValueError",
        False,
    ),
    "a hook opens and closes after an exception": (
        "atexit.register(lambda: opened().close() or print('closed')); raise ValueError",
        True,
    ),
    "a hook's block after an exception": (
        "def write():\n    with opened(): pass\natexit.register(write); raise ValueError",
        True,
    ),
    "a finalizer of weakref": ("owner = Owner(); weakref.finalize(owner, opened().close)", False),
    "nobody closes": ("file = opened()", False),
}
PROLOGUE = """
import atexit, contextlib, sys, weakref, tidegate
class Owner: pass
def opened():
    file = tidegate.open(sys.argv[1], "wb")
    file.write(b"1")
    return file
"""


def problem_of_program(name):
    """What is wrong with how a program has ended; `None` if nothing is."""
    source, is_published = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / KEY
        run = subprocess.run(
            [sys.executable, "-c", PROLOGUE + source, path], capture_output=True, text=True, timeout=60
        )
        if path.exists() != is_published:
            return f"published: {not is_published}"
    if (f"{KEY} was not published" in run.stderr) == is_published:
        return f"says {run.stderr}"
    return None


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.kept = []

    def emit(self, record):
        self.kept.append(record.getMessage())


def problem(name, filters="always"):
    """What is wrong with a row; `None` if nothing is. With the filters "error", warnings are exceptions: then the row
    ends as it does without."""
    found, records, unraisable = ROWS[name], Records(), []
    store = tidegate.Store(f"memory://{secrets.token_hex(6)}")
    logger, hook = logging.getLogger("tidegate"), sys.unraisablehook
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(records)
    sys.unraisablehook = lambda each: unraisable.append(type(each.exc_value))
    raised = None
    try:
        with warnings.catch_warnings(record=filters == "always") as warned:
            warnings.simplefilter(filters)
            try:
                found.run(store)
            except BaseException as error:
                raised = type(error)
        gc.collect()
    finally:
        sys.unraisablehook = hook
        logger.removeHandler(records)
        logger.propagate = propagates
    if store.exists(KEY) != found.is_published:
        return f"published: {not found.is_published}"
    if raised is not found.raises and not (raised and found.raises and issubclass(raised, found.raises)):
        return f"raises {raised}"
    if any(f"{store.url}/{KEY}" not in each for each in records.kept) or len(records.kept) != found.is_told:
        return f"records: {records.kept}"
    told = [each.category for each in warned or () if issubclass(each.category, (HOW, ResourceWarning))]
    expected = [] if found.warns is None else [found.warns]
    if filters == "always" and (
        len(told) != len(expected) or not all(issubclass(each, HOW) and issubclass(each, *expected) for each in told)
    ):
        return f"warns {told}"
    for each in warned or ():
        # What the user has written is named as the place.
        if issubclass(each.category, HOW) and "/tidegate/" in each.filename:
            return f"the warning is said to come from {each.filename}"
    # From Python 3.13 on, Python's own wrappers say that they could not write into the file any more.
    if any(not issubclass(each, (HOW, ValueError)) for each in unraisable):
        return f"unraisable: {unraisable}"
    return None


def table():
    """The rows, which :func:`problem` checks."""
    yield "| a file | is then | ends with | record | warning |\n|---|---|---|---|---|"
    for name, (_, is_published, warns, raises, is_told) in ROWS.items():
        cells = ["published" if is_published else "discarded", raises and raises.__name__, is_told and "yes"]
        yield (
            " | ".join(["| " + name.replace("_", " "), *(cell or "" for cell in [*cells, warns and warns.__name__])])
            + " |"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print(*table(), sep="\n")
        sys.exit()
    problems = {f"{name}, {filters}": problem(name, filters) for name in ROWS for filters in ("always", "error")}
    problems |= {name: problem_of_program(name) for name in PROGRAMS}
    for name, wrong in problems.items():
        if wrong is not None:
            print(f"{name}: {wrong}")
    print(f"{len(ROWS)} rows on Python {sys.version.split()[0]}")
    sys.exit(any(problems.values()))
