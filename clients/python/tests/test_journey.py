"""The whole journey against a real server: PROVOST_SERVER and PROVOST_TOKEN say where it is (scripts/conformance clients starts one)."""

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
        accepted = self.client.submit_task({"message": "What is 6 * 7?"}, idempotency_key=key)
        again = self.client.submit_task({"message": "What is 6 * 7?"}, idempotency_key=key)
        self.assertEqual((again["task"], again["deduped"]), (accepted["task"], True))
        items = list(self.client.stream_run(accepted["run"]))
        self.assertEqual(items[-1].kind, "end")
        durable = [item.data for item in items if item.kind == "event"]
        self.assertEqual([event["seq"] for event in durable], list(range(1, len(durable) + 1)))
        self.assertEqual(durable[-1]["kind"], "finished")
        waited = self.client.wait_for_run(accepted["run"], timeout_ms=10_000)
        self.assertEqual((waited["timed_out"], waited["run"]["status"]), (False, "ok"))
        self.assertIn("42", waited["run"]["answer"])
        # Whoever comes back with a cursor gets what follows it, and nothing twice.
        cursor = next(item.cursor for item in items if item.kind == "event")
        rest = [i.data["seq"] for i in self.client.stream_run(accepted["run"], after=cursor, deltas=False) if i.kind == "event"]
        self.assertEqual(rest, list(range(2, len(durable) + 1)))

    def asked(self, session):
        """A run that waits for a person, and the question."""
        accepted = self.client.submit_task({"message": "Save a note: the sky is blue", "session": session})
        for item in self.client.stream_run(accepted["run"], deltas=False):
            if item.kind == "event" and item.data["kind"] == "approval_needed":
                return accepted, item.data["data"]["request"]["id"]
        self.fail("nobody was asked")

    def test_steer_and_approve(self):
        accepted, question = self.asked(f"py-{self.key()}")
        self.assertIn(question, [found["id"] for found in self.client.list_approvals(run=accepted["run"])["items"]])
        explained = self.client.explain(accepted["run"])
        self.assertIn(question, explained["cause"] + str(explained["related"]) + str(explained["next"]))
        receipt = self.client.say_to_run(accepted["run"], {"message": "and thank you", "mode": "steer"})
        self.assertIn(receipt["outcome"], ["direct", "queued", "steered"])
        answered = self.client.answer_approval(question, {"decision": "approve"})
        self.assertTrue(answered["counts"])
        self.assertFalse(self.client.answer_approval(question, {"decision": "deny"})["counts"])
        waited = self.client.wait_for_run(accepted["run"], timeout_ms=10_000)
        self.assertEqual(waited["run"]["status"], "ok")

    def test_cancel_and_fork(self):
        accepted, _ = self.asked(f"py-{self.key()}")
        self.assertEqual(self.client.cancel_run(accepted["run"])["outcome"], "now")
        self.assertEqual(self.client.get_run(accepted["run"])["status"], "cancelled")
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
