"""The main operations against a real server. PROVOST_SERVER and PROVOST_TOKEN select it; `scripts/conformance clients` starts one."""

import os
import unittest
import uuid

from provost_client import ApiError, Client


@unittest.skipUnless(os.environ.get("PROVOST_SERVER"), "PROVOST_SERVER is not set")
class Journey(unittest.TestCase):
    def setUp(self):
        self.client = Client()

    def key(self):
        return str(uuid.uuid4())

    def test_submit_stream_and_wait(self):
        key = self.key()
        receipt = self.client.submit_task({"message": "What is 6 * 7?"}, idempotency_key=key)
        again = self.client.submit_task({"message": "What is 6 * 7?"}, idempotency_key=key)
        self.assertEqual((again["task"], again["deduped"]), (receipt["task"], True))
        items = list(self.client.stream_run(receipt["run"]))
        self.assertEqual(items[-1].kind, "end")
        durable = [item.data for item in items if item.kind == "event"]
        self.assertEqual([event["seq"] for event in durable], list(range(1, len(durable) + 1)))
        self.assertEqual(durable[-1]["kind"], "finished")
        waited = self.client.wait_for_run(receipt["run"], timeout_ms=10_000)
        self.assertEqual((waited["timed_out"], waited["run"]["status"]), (False, "ok"))
        self.assertIn("42", waited["run"]["answer"])
        # A stream with a cursor continues with the next event, without duplicates.
        cursor = next(item.cursor for item in items if item.kind == "event")
        rest = [i.data["seq"] for i in self.client.stream_run(receipt["run"], after=cursor, deltas=False) if i.kind == "event"]
        self.assertEqual(rest, list(range(2, len(durable) + 1)))

    def start_run_with_approval(self, session):
        """Starts a run that waits for an approval. Returns the receipt of its task and the id of the approval."""
        receipt = self.client.submit_task({"message": "Save a note: the sky is blue", "session": session})
        for item in self.client.stream_run(receipt["run"], deltas=False):
            if item.kind == "event" and item.data["kind"] == "approval_needed":
                return receipt, item.data["data"]["request"]["id"]
        self.fail("no approval was requested")

    def test_steer_and_approve(self):
        receipt, approval = self.start_run_with_approval(f"py-{self.key()}")
        self.assertIn(approval, [found["id"] for found in self.client.list_approvals(run=receipt["run"])["items"]])
        explained = self.client.explain(receipt["run"])
        self.assertIn(approval, explained["cause"] + str(explained["related"]) + str(explained["next"]))
        input_receipt = self.client.send_run_input(receipt["run"], {"message": "and thank you", "mode": "steer"})
        self.assertIn(input_receipt["outcome"], ["direct", "queued", "steered"])
        decided = self.client.decide_approval(approval, {"decision": "approve"})
        self.assertTrue(decided["counts"])
        self.assertFalse(self.client.decide_approval(approval, {"decision": "deny"})["counts"])
        waited = self.client.wait_for_run(receipt["run"], timeout_ms=10_000)
        self.assertEqual(waited["run"]["status"], "ok")

    def test_cancel_and_fork(self):
        receipt, _ = self.start_run_with_approval(f"py-{self.key()}")
        self.assertEqual(self.client.cancel_run(receipt["run"])["outcome"], "now")
        self.assertEqual(self.client.get_run(receipt["run"])["status"], "cancelled")
        done = self.client.submit_task({"message": "What is 2 + 3?"})
        self.client.wait_for_run(done["run"], timeout_ms=10_000)
        forked = self.client.fork_run(done["run"], {"say": "And what is 3 + 4?"})
        waited = self.client.wait_for_run(forked["run"], timeout_ms=10_000)
        self.assertEqual((waited["run"]["status"], waited["run"]["forked_from"]), ("ok", done["run"]))
        self.assertIn("7", waited["run"]["answer"])

    def test_refusals_are_typed(self):
        with self.assertRaises(ApiError) as refused:
            self.client.get_run("run_00000000000000000000000000")
        self.assertEqual((refused.exception.status, refused.exception.code), (404, "not_found"))
        with self.assertRaises(ApiError) as refused:
            self.client.submit_task({"message": "hi", "colour": "red"})
        self.assertEqual((refused.exception.status, refused.exception.code), (400, "invalid"))
        with self.assertRaises(ApiError) as refused:
            Client(token="prv_wrong").list_tasks()
        self.assertEqual(refused.exception.status, 401)


if __name__ == "__main__":
    unittest.main()
