-- A history of schema version 1, which had neither the projection nor numbered sessions.
PRAGMA application_id = 1833002868;
PRAGMA user_version = 1;
CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT NOT NULL DEFAULT '', created_at REAL NOT NULL);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, turn INTEGER NOT NULL, role TEXT NOT NULL,
    content TEXT, extra TEXT, created_at REAL NOT NULL, undone INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX messages_by_session ON messages (session, id);
INSERT INTO sessions VALUES ('0a0a0a0a', 'Travel', 1700000000.0);
INSERT INTO sessions VALUES ('0b0b0b0b', '', 1700000100.0);
INSERT INTO messages VALUES (1, '0a0a0a0a', 1, 'user', 'Where is 京都?', NULL, 1700000001.0, 0);
INSERT INTO messages VALUES (2, '0b0b0b0b', 1, 'user', 'Add 2 and 3', NULL, 1700000101.0, 0);
INSERT INTO messages VALUES (3, '0b0b0b0b', 1, 'assistant', NULL, '{"content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": "{\"expression\": \"2+3\"}"}}]}', 1700000102.0, 0);
INSERT INTO messages VALUES (4, '0b0b0b0b', 1, 'tool', '5', '{"tool_call_id": "c1"}', 1700000103.0, 0);
INSERT INTO messages VALUES (5, '0b0b0b0b', 1, 'assistant', 'It is 5.', NULL, 1700000104.0, 0);
INSERT INTO messages VALUES (6, '0a0a0a0a', 1, 'assistant', 'In Japan.', NULL, 1700000105.0, 0);
INSERT INTO messages VALUES (7, '0a0a0a0a', 2, 'user', 'a question taken back', NULL, 1700000106.0, 1);
INSERT INTO messages VALUES (8, '0a0a0a0a', 2, 'user', 'deleted', NULL, 1700000107.0, 0);
DELETE FROM messages WHERE id = 8;
