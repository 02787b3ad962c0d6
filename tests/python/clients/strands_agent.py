"""An agent as its author would write it with Strands Agents, on a model of Amazon Bedrock.

Started by the tests with the pinned client packages; endpoints and keys come from the environment.
"""

from strands import Agent, tool
from strands.models import BedrockModel
from strands.telemetry import StrandsTelemetry

telemetry = StrandsTelemetry().setup_otlp_exporter()
model = BedrockModel(model_id="amazon.nova-lite-v1:0")


@tool
def get_weather(city: str) -> dict:
    """Weather of a city"""
    return {"status": "success", "content": [{"json": {"city": city, "celsius": 18}}]}


agent = Agent(
    model=model,
    name="weather-agent",
    tools=[get_weather],
    system_prompt="You know the weather.",
    callback_handler=None,
    trace_attributes={"session.id": "thread-7", "user.id": "user-42", "tags": ["v1"]},
)
print(agent("What is the weather in Paris?"))
telemetry.tracer_provider.force_flush()
