"""An OpenAI-compatible endpoint on loopback that says, or does wrong, what a test tells it to."""

from tests.chat_server.faults import Cut, Garbage, Hang, Refuse
from tests.chat_server.replies import Call, Reply
from tests.chat_server.server import Chat, Said, Say, chat_server, text_of

__all__ = ["Call", "Chat", "Cut", "Garbage", "Hang", "Refuse", "Reply", "Said", "Say", "chat_server", "text_of"]
