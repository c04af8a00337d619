# mypy: ignore-errors
"""Groups, administration and maintenance as users of the published client use them.

Runs in the client's own environment: `queen` here is the published package.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from words import fresh, now, values

from queen import Queen


async def scenario_subscriptions(client, url):
    name = fresh("subscriptions")
    await client.queue(name).push([{"data": {"n": n}} for n in range(5)])
    between = datetime.now(UTC).isoformat()
    assert len(await now(client.queue(name).group("a").subscription_mode("all").batch(10))) == 5
    assert await now(client.queue(name).group("b").subscription_mode("new").batch(10)) == []
    assert await now(client.queue(name).group("c").subscription_from("now").batch(10)) == []
    await client.queue(name).push([{"data": {"n": n}} for n in range(5, 8)])
    assert len(await now(client.queue(name).group("b").batch(10))) == 3
    assert len(await now(client.queue(name).group("c").batch(10))) == 3
    assert len(await now(client.queue(name).group("d").subscription_from(between).batch(10))) == 3


async def scenario_replay(client, url):
    name, group = fresh("replay"), fresh("g")
    start = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    for n in range(10):
        await client.queue(name).partition(f"p{n}").push([{"data": {"n": n}}])

    async def consume():
        found = []
        while messages := await now(client.queue(name).group(group).subscription_mode("all").batch(50).partitions(10)):
            found += [message["data"]["n"] for message in messages]
            await client.ack(messages, True, {"group": group})
        return sorted(found)

    everything = list(range(10))
    assert await consume() == everything
    moved = await client.admin.seek_consumer_group(group, name, {"timestamp": start})
    assert (moved["success"], moved["partitionsUpdated"]) == (True, 10)
    assert await consume() == everything
    assert (await client.admin.delete_consumer_group_for_queue(group, name))["deletedPartitions"] == 10
    assert await consume() == everything
    assert (await client.delete_consumer_group(group))["success"]
    assert await consume() == everything
    changed = await client.update_consumer_group_timestamp(group, start)
    assert (changed["success"], changed["rowsUpdated"]) == (True, 1)
    assert name in await client.admin.get_consumer_group(group)
    groups = await client.admin.list_consumer_groups()
    assert any(entry["name"] == group and entry["members"] == 10 for entry in groups)
    await client.queue(name).partition("p0").push([{"data": {"n": 99}}])
    lagging = await client.admin.get_lagging_consumers(min_lag_seconds=0)
    assert any(entry["consumer_group"] == group and entry["offset_lag"] == 1 for entry in lagging)


async def scenario_admin_messages(client, url):
    name = fresh("admin")
    pushed = await client.queue(name).partition("eu").push([{"data": {"n": n}} for n in range(4)])
    place = [(entry["partition_id"], entry["transaction_id"]) for entry in pushed]
    admin = client.admin
    listed = await admin.list_messages(queue=name, limit=3)
    assert [message["status"] for message in listed["messages"]] == ["pending"] * 3
    detail = await admin.get_message(*place[0])
    assert (detail["payload"], detail["queuePath"]) == ({"n": 0}, f"{name}/eu")
    assert (await admin.delete_message(*place[0]))["success"] is True
    assert (await admin.retry_message(*place[1]))["success"] is True
    assert (await admin.move_message_to_dlq(*place[2]))["success"] is True
    assert (await client.queue(name).dlq("__QUEUE_MODE__").get())["total"] == 1
    assert [data["n"] for data in values(await now(client.queue(name).batch(10)))] == [1, 3, 1]
    assert (await admin.get_traces_for_message(*place[1]))["traces"] == []
    assert (await admin.clear_queue(name))["success"] is True
    assert (await admin.get_queue(name))["totals"]["total"] == 0


async def scenario_admin_numbers(client, url):
    name = fresh("numbers.task")
    await client.queue(name).partition("eu").push([{"data": {"n": n}} for n in range(4)])
    admin = client.admin
    assert (await admin.get_overview())["messages"]["total"] >= 4
    space = name.split(".")[0]
    assert space in {entry["namespace"] for entry in (await admin.get_namespaces())["namespaces"]}
    assert name.split(".")[1] in {entry["task"] for entry in (await admin.get_tasks())["tasks"]}
    assert name in {entry["name"] for entry in (await admin.list_queues(limit=1000))["queues"]}
    assert (await admin.get_queue(name))["totals"]["pending"] == 4
    assert "eu" in {entry["name"] for entry in (await admin.get_partitions(queue=name))["partitions"]}
    assert (await admin.refresh_consumer_stats())["success"] is True
    assert (await admin.get_status(queue=name))["messages"]["pending"] == 4
    assert (await admin.get_queue_stats(limit=5))["pagination"]["limit"] == 5
    assert (await admin.get_queue_detail(name))["totals"]["messages"]["total"] == 4
    points = (await admin.get_analytics(interval="minute", queue=name))["dataPoints"]
    assert sum(point["messages"] for point in points) == 4
    assert (await admin.health())["status"] == "healthy"
    assert (await admin.metrics())["messages"]["total"] >= 4
    assert (await admin.get_system_metrics())["replicas"]
    assert (await admin.get_worker_metrics())["summary"]["ingested"] >= 4
    assert (await admin.get_postgres_stats())["database"]["size"] > 0


async def scenario_maintenance(client, url):
    name = fresh("maintenance")
    assert (await client.admin.get_maintenance_mode())["maintenanceMode"] is False
    assert (await client.admin.set_maintenance_mode(True))["maintenanceMode"] is True
    try:
        answer = await client.queue(name).push([{"data": {"n": n}} for n in range(3)])
        assert [entry["status"] for entry in answer] == ["buffered"] * 3
        assert (await client.admin.get_maintenance_mode())["bufferedMessages"] == 3
    finally:
        assert (await client.admin.set_maintenance_mode(False))["maintenanceMode"] is False
    found = []
    while len(found) < 3:
        messages = await client.queue(name).batch(10).wait(True).timeout_millis(12_000).pop()
        assert messages, "what was buffered did not arrive"
        await client.ack(messages, True)
        found += values(messages)
    assert found == [{"n": 0}, {"n": 1}, {"n": 2}]


async def scenario_pop_maintenance(client, url):
    name = fresh("paused")
    await client.queue(name).push([{"data": {"n": 1}}])
    assert (await client.admin.set_pop_maintenance_mode(True))["popMaintenanceMode"] is True
    try:
        assert (await client.admin.get_pop_maintenance_mode())["popMaintenanceMode"] is True
        assert await client.queue(name).wait(True).timeout_millis(5000).pop() == []
    finally:
        await client.admin.set_pop_maintenance_mode(False)
    assert values(await client.queue(name).wait(True).timeout_millis(5000).pop()) == [{"n": 1}]


async def scenario_close(client, url):
    name = fresh("close")
    other = Queen(url=url, retry_attempts=1)
    await other.queue(name).buffer({"message_count": 100, "time_millis": 60_000}).push([{"data": {"n": 1}}])
    await other.close()
    assert values(await now(client.queue(name))) == [{"n": 1}]
