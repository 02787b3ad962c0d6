/**
 * A small agent whose runs are seen in Spindle: it looks up the weather with a tool, in a conversation with a user.
 *
 * It needs no model provider: it starts the stub beside it. Spindle's address and key come from `SPINDLE_URL` and
 * `SPINDLE_API_KEY`.
 */

import { agent, chat, currentRun, feedback, flush, saved, stats, tool, withTags, withThread, withUser } from "@spindle/client";
import { observeOpenAI } from "@spindle/client/openai";
import OpenAI from "openai";
import { startStubModel } from "./stub-model.mjs";

const model = await startStubModel();
const openai = observeOpenAI(new OpenAI({ baseURL: `${model.url}/v1`, apiKey: "none", maxRetries: 0 }));

const TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather in a city",
      parameters: { type: "object", properties: { city: { type: "string" } } },
    },
  },
];

const getWeather = tool("get_weather", async ({ city }) => {
  if (city !== "Paris") throw new Error(`no weather station in ${city}`);
  return { city, degrees: 18, sky: "light rain" };
});

const answer = agent("weather-agent", async (question) => {
  const messages = [{ role: "user", content: question }];
  const first = await openai.chat.completions.create({ model: "gpt-4o-mini", messages, tools: TOOLS });
  const [call] = first.choices[0].message.tool_calls;
  const weather = await getWeather(JSON.parse(call.function.arguments));
  messages.push(first.choices[0].message, { role: "tool", tool_call_id: call.id, content: JSON.stringify(weather) });

  // The second answer is streamed, as it would be to a user who waits.
  const stream = await openai.chat.completions.create({
    model: "gpt-4o-mini",
    messages,
    tools: TOOLS,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  return { text, runId: currentRun().id };
});

await withUser("ada@example.com", () =>
  withThread(process.env.THREAD ?? "talk-1", () =>
    withTags(["example"], async () => {
      const question = "What is the weather in Paris?";
      chat({ role: "user", content: question });
      const { text, runId } = await answer(question);
      chat({ role: "assistant", content: text, run: runId, agent: "weather-agent" });
      feedback(runId, "positive", "brief and right");
      saved(runId);
      // An unknown city: the error is seen on the run of the tool.
      await getWeather({ city: "Atlantis" }).catch(() => {});
      console.log(text);
    }),
  ),
);

await model.close();
// Not needed at the end of a program; here, to show the numbers.
await flush();
console.log(stats());
