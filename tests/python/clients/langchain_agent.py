"""A langchain agent with llmonitor's callback handler: a model call, a tool call, a model call."""

import os

from langchain.agents import AgentType, initialize_agent
from langchain.chat_models import ChatOpenAI
from langchain.tools import StructuredTool
from llmonitor.langchain import LLMonitorCallbackHandler


def get_weather(city: str) -> str:
    """Weather of a city"""
    return "18 degrees, light rain"


handler = LLMonitorCallbackHandler(app_id=os.environ["LLMONITOR_APP_ID"])
chat = ChatOpenAI(model_name="gpt-4o-mini", temperature=0.1, max_retries=0, callbacks=[handler], metadata={"user_id": "user-42"})
agent = initialize_agent(
    [StructuredTool.from_function(get_weather)],
    chat,
    agent=AgentType.OPENAI_FUNCTIONS,
    metadata={"agent_name": "langchain-agent", "user_id": "user-42", "user_props": {"email": "ada@example.com"}},
)
print(agent.run("What is the weather in Paris?", callbacks=[handler]))
