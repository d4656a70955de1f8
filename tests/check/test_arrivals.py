"""Outages and lively healthy traffic that somebody recorded who had not read the rules, from real brokers.

The first problem names what the person who made the outage wrote down before; the healthy ones are silent.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.support import shown_of, worse
from wiredecode.check import Problem

FOLDER = Path(__file__).parent / "arrivals"
FIRST = {
    "r_dead_letter_key": (
        "amqp091.dropped",
        ("messages of invoices that invoicing", "invoices.dlx, fits key invoice.created", "keep their routing key"),
    ),
    "r_two_replicas": (
        "flow.done-twice",
        ("10.97.40.21 and locator-invoice-mailer-1 each get every message of invoices.issued", "from 124 to 256"),
    ),
    "k_oom_loop": ("kafka.rebalance-storm", ("group invoice-render rebalanced", "invoice-render-2 ended 6 times")),
    "n_no_drain": ("nats.service-silent", ("ended its connection at 21.286 s", "4 requests", "without a drain")),
    "n_no_queue_group": (
        "flow.sent-again",
        ("10.96.20.12 and order-mailer-2 publish the same messages to mail.send: 66", "no queue group divides these"),
    ),
    "n_cut_off": ("tcp.refused", ("10.96.2.12:4222 refused 18", "in its name: it sent more then")),
    "r_staging": ("flow.shared-group", ("billing-mailer-staging shares billing.mails with 10.96.30.22", "environment")),
    "r_auto_delete": ("flow.undelivered", ("48 messages of 2 topics", "crm-sync (#3) declared it with auto_delete")),
    "k_two_topics": (
        "kafka.group-topics",
        ("orders-mailer (#1) orders.placed, refunds-mailer (#11) refunds.issued", "was given orders.placed[0, 2]"),
    ),
    "k_constant_key": ("flow.uneven", ("398 of 398 messages of dispatch.jobs", "have one key, from dispatch-api")),
    "k_off_by_one": (
        "flow.read-again",
        ("gets the last message of payments.authorized that it had again", "18 messages", "means that of the next one"),
    ),
    "n_stream_answers": (
        "nats.stream-answers",
        ("stream AUDIT answers requests to inventory.reserve", "74 requests of checkout", "audit-platform (#4) made"),
    ),
    "n_no_durable": ("flow.read-again", ("it got 391 messages again", "no durable name")),
    "n_interest_first": ("flow.skipped", ("124 confirmed messages of billing.issued came to no consumer", "interest")),
    "r_no_prefetch": ("flow.uneven", ("render-worker-1 has up to 150 messages", "or no limit")),
    "r_no_consume": (
        "flow.nothing-since",
        ("fulfil-worker gets nothing of orders.fulfil", "it came back at 28.729 s, and did not subscribe again"),
    ),
    "r_old_offset": ("flow.read-again", ("billing-meter got 164 messages", "offset 105, though it had stored 262")),
    "k_idle_members": ("flow.uneven", ("3 members of group resize have no partition", "117 of 320 messages of images")),
    "k_deploy_order": (
        "flow.not-done",
        ("fulfil got 13 messages of shop.events with header ce_type order.cancelled", "shop was deployed before it"),
    ),
    "k_first_acl": (
        "kafka.denied",
        ("shop has no permission for Produce orders", "changed ACLs of orders, at 10.081 s"),
    ),
    "n_gave_up": ("tcp.gave-up", ("ledger (#3) did not connect again", "it tried 4 times, until 12.541 s")),
    "n_wrong_account": (
        "flow.no-consumer",
        ("84 messages of checkout-2 to order.placed", "it logged in as checkout-stg", "billing-stg gets them"),
    ),
    "r_transient_restart": ("flow.undelivered", ("58 messages of thumbs", "not persistent (delivery_mode 1)")),
    "r_maxlen_drop": (
        "flow.undelivered",
        ("76 messages of bookings/ came to no consumer of export", "longer than its"),
    ),
    "r_retry_void": (
        "flow.undelivered",
        ("39 messages that dispatcher-out publishes to hooks.retry.v2", "does not lead on: its dead letter exchange"),
    ),
    "k_null_key": (
        "flow.keys-apart",
        ("scanner-gw publishes to parcel.events without keys since", "go to 3 partitions"),
    ),
    "k_reset_group": (
        "flow.read-again",
        ("payout got 83 messages of payments9 again", "ops set the position of group payout to 0 at 12.034 s"),
    ),
    "k_msg_timeout": ("server.stalled", ("stalled for 6.498 s",)),
    "n_ackwait_kill": (
        "nats.redelivered",
        ("16 messages of LABELS", "had when it ended", "10.0 s later"),
    ),
    "n_hoard": ("flow.uneven", ("worker-2 has up to 43 messages of RENDER that wait 15.1 s", "takes more messages")),
    "r_cancel_ignored": (
        "flow.nothing-since",
        (
            "claims.check gets nothing of claims/claim.new",
            "deleted it at 10.004 s, and its consumers do not consume again",
        ),
    ),
    "r_stale_binding": (
        "flow.done-twice",
        ("twice for 98 messages: it gets them by shop/order.created and shop/order.paid", "an earlier version"),
    ),
    "k_noisy_tenant": (
        "flow.uneven",
        ("notifier-1 is up to 98 messages and 9.9 s late with events[0]", "130 of 203", "one key, from importer"),
    ),
    "k_null_values": (
        "flow.emptied",
        ("pricing publishes to prices without a body since 8.000 s", "95 messages had one"),
    ),
    "k_partitioner_mix": ("flow.keys-apart", ("status-api puts messages into other partitions of cart than cart-api",)),
    "k_retry_loop": ("flow.loop", ("the same 3 messages to mails.retry again and again", "121 times")),
    "k_fetch_min": ("flow.waits", ("messages of ticks wait 3.2 s for risk-engine, since 8.083 s", "200,000 bytes")),
    "k_maxpoll_loop": ("kafka.max-poll", ("left group scoring", "did not poll")),
    "n_no_stream": ("flow.no-consumer", ("105 messages of order-api to ord.eu.new", "before to ord.new")),
    "r_scaled_dup": ("flow.done-twice", ("3 consumers of thumbs with the name resizer each get every message",)),
    "k_ghost_member": ("kafka.no-member", ("group billing stood still for 41.9 s", "waited for billing-2")),
    "k_idle_drop": ("tcp.no-ack", ("after 11.1 s without packets, while new connections work", "forgets connections")),
    "n_no_quorum": ("nats.server-down", ("2 servers left the cluster", "26 were refused", "at 8.992 s")),
    "k_poison_seek": (
        "flow.stuck",
        ("ledger goes back to offset 39 of payments[1]", "123 messages were written after"),
    ),
    "k_txn_fence": ("kafka.fenced", ("transactional id ledger-writer", "ledger-writer-2 (#9) began with the same")),
    "n_core_restart": ("flow.skipped", ("64 messages of pay-api", "billing was away from 9.006 s to 14.000 s")),
    "n_pod_durable": ("flow.read-again", ("mailer reads user.created under a new name", "521 messages again")),
    "r_no_resub": ("flow.nothing-since", ("indexer gets nothing of docs since 8.755 s", "did not subscribe again")),
    "k_assign_scaled": ("flow.done-twice", ("2 consumers of addr with the name geocoder", "215 came twice")),
    "k_autocreate_typo": ("flow.no-consumer", ("195 messages of order-api-1 to shop-orders", "before to shop.orders")),
    "k_commit_back": ("flow.set-back", ("exporter stores its position in sales[0] with a lower offset",)),
    "k_compacted_events": ("flow.left-out", ("fraud-check is not given 109 messages of order-status", "compacted")),
    "k_crashloop_member": ("kafka.rebalance-storm", ("group claims", "worker-3 joined and ended 6 times")),
    "k_dirty_read": (
        "kafka.aborted-reads",
        ("payout reads records of 18 aborted transactions in", "ledger leaves them out"),
    ),
    "k_format_v2": ("flow.not-passed-on", ("enricher passes 17 of 232 messages of orders", "order-api, which began")),
    "k_group_deleted": ("flow.read-again", ("nightly-export got 153", "janitor (#15) deleted group nightly-export")),
    "n_consumer_recreated": ("flow.skipped", ("welcome-svc never got 79", "deploy-job (#4) deleted consumer welcome")),
    "n_dedup_short": ("nats.stored-twice", ("BOOK stored 57 messages of outbox-relay", "duplicate_window is shorter")),
    "n_purge": ("flow.skipped", ("render never got 57", "cleanup (#5) deleted messages of JOBS")),
    "n_push_no_group": ("flow.done-twice", ("2 consumers of PAY with the name receipts", "194 came twice")),
    "n_term_v2": (
        "flow.not-passed-on",
        ("picker passes 2 of 197 messages of ord.new", "have quantity and have no qty"),
    ),
    "r_compress_skip": ("flow.not-passed-on", ("indexer passes 15 of 219 messages of events", "web, which began")),
    "r_heartbeat": ("rabbitmq_stream.heartbeat", ("etl (#3) was silent for 8.5 s",)),
    "r_pubid_order": (
        "rabbitmq_stream.messages-dropped",
        ("77 new messages of sensor-gw", "after messages with higher ids"),
    ),
    "r_unsub_wrong": ("flow.nothing-since", ("warehouse gets nothing of orders since 9.047 s", "it unsubscribed")),
    "r_pod_ref": ("flow.read-again", ("welcome reads signups under a new name", "welcome-c3aa-0tr5w")),
    "r_resend_file": (
        "flow.sent-again",
        ("price-export published 153 messages to prices again", "each time it starts"),
    ),
    "k_commit_ahead": (
        "flow.not-done",
        ("thumbnailer got 47 messages of jobs", "nothing to jobs.done", "id 86 to 132", "thumbnailer-out at 12.9"),
    ),
    "k_parallel_order": ("flow.out-of-order", ("results of one key to balance", "before 0 of 113", "by key and n")),
    "k_no_flush": ("flow.publishes-no-more", ("billing-job connected 6 times", "80 messages in 4 times before")),
    "n_kv_lock_ttl": ("flow.sent-again", ("billing-1 and billing-2 publish messages with the same job", "15 to 76")),
    "r_store_swapped": ("flow.misplaced", ("dispatcher stores offset 297 for returns", "the position in orders")),
    "k_split_first": (
        "flow.not-done",
        ("fewer results to pick.lines than messages of orders have order.lines", "207 are missing"),
    ),
    "n_outbox_gap": ("flow.not-done", ("outbox-relay published nothing to order.created for 43 messages",)),
    "n_pool_order": ("flow.out-of-order", ("pos.veh2 and 4 other topics", "89 of 288", "header Msg-No")),
    "r_unbound": ("flow.nothing-since", ("ship gets nothing of shop/order.paid", "deploy-job (#", "its binding away")),
    "k_canary_group": ("flow.done-twice", ("indexer-3", "group indexer-canary", "before in indexer")),
    "k_clock_ahead": ("kafka.clock", ("report-2", "3,596 s ahead")),
    "k_hung_txn": ("kafka.transaction-open", ("stock[0]", "importer (#10) began a transaction, and did not end it")),
    "k_never_commits": ("flow.read-again", ("etl", "803 messages", "never commits")),
    "k_poll_hang": ("flow.nothing-since", ("ledger-1", "payments[0] since 8.047 s", "asks for no more")),
    "k_seconds_ts": ("kafka.clock", ("iot-gw", "seconds in place of milliseconds")),
    "k_partitions_added": ("flow.unread", ("2 partitions", "orders[2]: 44", "orders[3]: 53")),
    "n_ack_pending_1": ("nats.ack-pending", ("3 clients at most 1 message", "max_ack_pending")),
    "n_discard_new": ("flow.nothing-since", ("archive gets nothing", "it is full")),
    "n_double_service": ("flow.done-twice", ("charge-2 reads charge.card without a queue group", "138 messages")),
    "n_late_ack": ("nats.redelivered", ("RENDER", "longer than ack_wait")),
    "n_last_per_subject": ("flow.skipped", ("door-gw never got 152 of 212", "max_msgs_per_subject")),
    "n_ordered_churn": ("nats.consumer-churn", ("dashboard (#1) made 55 consumers of QUOTES",)),
    "n_timeout_unit": (
        "nats.stored-twice",
        ("booking (#3) published 159 messages", "388 of the publishes are repeats"),
    ),
    "r_recreated": ("rabbitmq_stream.offset-beyond", ("worker (#10) asked for offset 250 of jobs, and got 30",)),
    "r_same_ref": (
        "flow.shared-group",
        ("mail-svc", "invoice-svc store their positions in events under one name, app"),
    ),
    "r_superseded": ("flow.no-consumer", ("150 messages of orders-api-2 to orders", "left it for orders.v2")),
    "r_ts_spec": ("rabbitmq_stream.clock", ("report begins trades at a time in seconds",)),
    "n_acl_reload": ("nats.permissions", ("billing", "orders.>")),
    "n_auto_unsub": ("flow.nothing-since", ("alarm-svc", "since 5.831 s", "asked for 100 messages")),
    "n_bridge_loop": ("flow.loop", ("bridge-ab passes east.orders on", "bridge-ba passes west.orders on")),
    "n_filter_v2": ("flow.no-consumer", ("220 messages", "shop.eu.orders.created.v2", "billing got the earlier ones")),
    "n_interest_gone": ("flow.skipped", ("mailer never got 157", "retention (interest)")),
    "n_reply_wrong": ("nats.unanswered", ("59 of 255", "quote-3 (#4) answers on other subjects", "quote.reply.")),
    "n_shared_durable": ("flow.shared-group", ("mail-svc and ledger-svc share group processor",)),
    "r_dup_producer": ("rabbitmq_stream.messages-dropped", ("190 new messages of orders-api",)),
    "k_fixed_list": ("flow.unread", ("geofence does not read partitions 3, 4, 5", "it reads 0, 1, 2 only")),
    "n_subscribed_again": ("flow.done-twice", ("sms-sender has 3 subscriptions to sms.out on one connection", "197")),
    "r_no_acks": ("amqp091.prefetch", ("consumer fulfilment of fulfilment (#1) had 20 messages",)),
    "r_never_stored": ("flow.read-again", ("invoice-writer got 566 messages", "asked the server for its offset")),
    "r_partition_copy": ("flow.unread", ("no consumer reads trips-2",)),
    "r_retention_gap": ("flow.skipped", ("aggregator never got 231", "retention had deleted them")),
    "r_wrong_stream": ("flow.never-began", ("archiver waits for invoice", "invoices")),
}
ALSO = {
    "k_retry_dup": (
        "flow.sent-again",
        ("transfer-api published 65 messages", "55 messages had got no answer", "time-out"),
    ),
}
"""What follows from the first problem, and is named beside it."""
SILENT = ("r_store_first", "n_ack_all")
"""Outages without a warning: an offset that is stored before the work is done, and work that may still come."""
HEALTHY = (
    *("nh_restart", "rh_jobs", "rh_bind", "rh_store"),
    *("kh_txn_eos", "nh_pause_batch", "nh_replay", "nh_scale_reqrep", "nh_workqueue_deploy"),
    *("nh_kv_nak", "nh_lameduck", "rh_backfill", "rh_late_readers", "rh_pool_scale"),
    *("rh_bluegreen", "rh_window", "nh_lease", "nh_stream_move", "rh_pricelist"),
    *("nh_retry_ids", "nh_ldm_cluster", "rh_rebind", "kh_cache"),
)


def problems(name: str) -> list[Problem]:
    return shown_of(FOLDER / f"{name}.pcap.zst")


@pytest.mark.parametrize("name", FIRST)
def test_the_first_problem_is_the_one_that_was_made(name: str) -> None:
    code, says = FIRST[name]
    first = next(each for each in problems(name) if each.severity != "note")
    text = " ".join((first.title, *first.details, *first.changed, first.likely))
    assert first.name == code
    assert [part for part in says if part not in text] == []


@pytest.mark.parametrize("name", ALSO)
def test_what_follows_is_named_beside_the_first_problem(name: str) -> None:
    code, says = ALSO[name]
    (found,) = (each for each in problems(name) if each.name == code)
    text = " ".join((found.title, *found.details, found.likely))
    assert [part for part in says if part not in text] == []


@pytest.mark.parametrize("name", [*HEALTHY, *SILENT])
def test_healthy_traffic_is_silent(name: str) -> None:
    assert worse(problems(name)) == []


def test_numbers_that_a_publisher_left_out_while_its_server_stood_still_are_its_loss() -> None:
    (found,) = (each for first in problems("k_msg_timeout") for each in first.effects if each.name == "flow.never-sent")
    assert "order-api never published 25 messages to orders9: order.nr jumps from O-00106 to O-00132" in found.title


def test_all_captures_are_judged() -> None:
    assert {each.name.partition(".")[0] for each in FOLDER.glob("*.zst")} == {*FIRST, *ALSO, *SILENT, *HEALTHY}


def test_work_that_may_still_come_is_a_note() -> None:
    (found,) = (each for each in problems("n_ack_all") if each.name == "flow.not-done")
    assert found.severity == "note"
    assert "render-1, render-2 got 16 messages of job.render" in found.title
    assert "id 63 to 64, 106 to 112, 154 to 160" in found.title
