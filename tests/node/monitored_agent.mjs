// An agent as its author would write it with llmonitor or lunary, which the argument names: wrapped functions, a monitored
// client, a thread and feedback. Started by the tests; the endpoints and the key come from the environment.

import OpenAI from "openai";

const { default: monitor } = await import(process.argv[2]);
const { monitorOpenAI } = await import(`${process.argv[2]}/openai`);
const client = monitorOpenAI(new OpenAI({ maxRetries: 0 }));
const ada = { userId: "user-42", userProps: { email: "ada@example.com" } };

async function ask(content, options = {}) {
  const answer = await client.chat.completions.create({
    model: "gpt-4o-mini",
    messages: [{ role: "user", content }],
    ...options,
  });
  return answer.choices[0].message.content;
}

const getWeather = monitor.wrapTool(
  async function getWeather(city) {
    await ask("The thermometer says 18.");
    return { city, celsius: 18 };
  },
  { name: "get_weather", tags: ["tool-tag"] },
);

const weatherAgent = monitor.wrapAgent(
  async function weatherAgent(question) {
    const answer = await ask(question, { temperature: 0.2 });
    await getWeather("Paris");
    return answer;
  },
  { name: "weather-agent", tags: ["v1"], ...ada },
);

const failingAgent = monitor.wrapAgent(async (question) => ask(question), { name: "failing-agent" });

const question = "What is the weather in Paris?";
const thread = monitor.startThread("thread-7");
const message = thread.trackUserMessage(question);
const answer = await weatherAgent(question);
thread.trackBotMessage(message, answer);
monitor.trackFeedback(message, { thumbs: "down", comment: "it snowed" });

const stream = await client.chat.completions.create({
  model: "gpt-4o-mini",
  messages: [{ role: "user", content: "slowly" }],
  stream: true,
});
for await (const piece of stream) if (!piece.id.startsWith("chatcmpl-")) throw new Error(piece.id);

await failingAgent("FAIL-500 please").catch((error) => console.log("failed as meant to:", error.status));
await monitor.flush();
