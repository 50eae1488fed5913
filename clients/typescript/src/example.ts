// Requests a bot, follows it for a while, and cancels it.
import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "./botpool.js";

type Bot = components["schemas"]["BotWithPlace"];

const botpool = createClient<paths>({
  baseUrl: process.env.BOTPOOL ?? "http://127.0.0.1:8000",
  headers: { Authorization: `Bearer ${process.env.KEY ?? ""}` },
});

async function requestBot(meetingUrl: string): Promise<number> {
  // With the same key, a repeated request gets the same bot.
  const { data, error } = await botpool.POST("/api/v1/bots", {
    params: { header: { "Idempotency-Key": randomUUID() } },
    body: { meetingUrl, botDisplayName: "Notetaker" },
  });
  if (error) throw new Error(`${error.status} ${error.detail} ${JSON.stringify(error.errors ?? {})}`);
  return data.bot.id;
}

async function getBot(id: number): Promise<Bot> {
  const { data, error } = await botpool.GET("/api/v1/bots/{id}", { params: { path: { id } } });
  if (error) throw new Error(`${error.status} ${error.detail}`);
  return data;
}

async function cancelBot(id: number): Promise<void> {
  const { error } = await botpool.POST("/api/v1/bots/{id}/cancel", { params: { path: { id } } });
  if (error) throw new Error(`${error.status} ${error.detail}`);
}

const id = await requestBot("https://zoom.us/j/123456789");
for (let second = 0; second < 10; second++) {
  const bot = await getBot(id);
  console.log(bot.id, bot.status, bot.waitingFor?.message ?? "");
  if (bot.endedAt !== null) break;
  await new Promise((resolve) => setTimeout(resolve, 1000));
}
await cancelBot(id);
console.log((await getBot(id)).status);
