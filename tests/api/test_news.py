"""Who asks for what changes from now on misses nothing between the question and the first look at the answer."""

import asyncio

from tutti.api.news import Feed


def test_what_changes_before_the_first_look_is_told():
    async def heard() -> str:
        feed = Feed()
        feed.news("job", "before")
        news = feed.listen(-1)
        feed.news("job", "after")
        return (await anext(news)).job

    assert asyncio.run(heard()) == "after"
