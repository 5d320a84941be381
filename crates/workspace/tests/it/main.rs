//! Workspaces of conversations.

mod conversation;
