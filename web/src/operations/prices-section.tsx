/** Prices of models, models without one, and pricing stored runs again. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { api, ask } from "../api/client";
import { time } from "../format";
import { Empty, Failure, Loading } from "../parts/notice";
import { type Column, DataTable } from "../table/data-table";
import { JobCard, JobState, jobTitle } from "./job-card";
import styles from "./operations.module.css";
import { type Field, type PriceRow, priceKey, readPrices, type Unit } from "./price-body";
import { PriceForm, RemovePrice } from "./price-form";
import { RecalculationForm } from "./recalculation-form";
import { UnpricedModels } from "./unpriced-models";
import { isOpen, useJobs } from "./use-jobs";

/** Heights in the table, in pixels: a few prices take no more room than they need. */
const [ROW_PX, HEAD_PX] = [38, 60];

/** What is being done in a dialog. */
type Doing =
  | { what: "set"; of?: PriceRow; model?: string }
  | { what: "remove"; of: PriceRow }
  | { what: "recalculate"; model: string };

/** The section. What is looked for, and the job that is followed, are in the address. */
export function PricesSection() {
  const client = useQueryClient();
  const [params, setParams] = useSearchParams();
  const [doing, setDoing] = useState<Doing>();
  const [set, setSet] = useState<{ model: string; isPrefix: boolean }>();
  const show = (name: string, value: string) =>
    setParams(
      (now) => {
        const next = new URLSearchParams(now);
        if (value) next.set(name, value);
        else next.delete(name);
        return next;
      },
      { replace: name === "search" },
    );
  const close = () => setDoing(undefined);
  const job = params.get("job");
  return (
    <>
      {set && (
        <div className="notice good row" role="status">
          <span className="grow">
            The price of <bdi>{set.model}</bdi> is set and applies to runs from now on.
          </span>
          <button type="button" onClick={() => setDoing({ what: "recalculate", model: set.isPrefix ? "" : set.model })}>
            Recalculate stored runs
          </button>
        </div>
      )}
      {job ? (
        <JobCard
          id={job}
          onClose={() => show("job", "")}
          onDone={() => client.invalidateQueries({ queryKey: ["unpriced"] })}
        />
      ) : (
        <Recalculations onShow={(id) => show("job", id)} />
      )}
      <UnpricedModels onSet={(model) => setDoing({ what: "set", model })} />
      <PriceTable
        params={params}
        show={show}
        onOpen={(of) => setDoing({ what: "set", of })}
        onAdd={() => setDoing({ what: "set" })}
        onRecalculate={() => setDoing({ what: "recalculate", model: "" })}
      />
      {doing?.what === "set" && (
        <PriceForm
          of={doing.of}
          model={doing.model ?? ""}
          onSet={(model, isPrefix) => {
            setSet({ model, isPrefix });
            close();
          }}
          onRemove={doing.of && (() => doing.of && setDoing({ what: "remove", of: doing.of }))}
          onClose={close}
        />
      )}
      {doing?.what === "remove" && <RemovePrice of={doing.of} onClose={close} />}
      {doing?.what === "recalculate" && (
        <RecalculationForm
          model={doing.model}
          onBegun={(id) => {
            setSet(undefined);
            close();
            show("job", id);
          }}
          onClose={close}
        />
      )}
    </>
  );
}

/** Recalculations in progress, regardless of who started them. */
function Recalculations({ onShow }: { onShow: (id: string) => void }) {
  const jobs = useJobs();
  const open = jobs.data?.data.filter((job) => job.kind === "recalculate" && isOpen(job)) ?? [];
  return open.map((job) => (
    <div key={job.job_id} className="notice row">
      <span className="grow">
        {jobTitle(job)}, asked for {time(job.created_at)} <JobState job={job} />
      </span>
      <button type="button" onClick={() => onShow(job.job_id)}>
        Show the job
      </button>
    </div>
  ));
}

type TableProps = {
  params: URLSearchParams;
  show: (name: string, value: string) => void;
  onOpen: (row: PriceRow) => void;
  onAdd: () => void;
  onRecalculate: () => void;
};

function PriceTable({ params, show, onOpen, onAdd, onRecalculate }: TableProps) {
  const [search, origin] = [params.get("search") ?? "", params.get("origin") ?? ""];
  const unit: Unit = params.get("unit") === "1k" ? "1k" : "1m";
  const prices = useQuery({
    queryKey: ["prices"],
    // As text: numbers of JavaScript would lose digits.
    queryFn: async ({ signal }) => readPrices(await ask(api.GET("/api/internal/prices", { signal, parseAs: "text" }))),
  });
  const wanted = search.toLowerCase();
  const rows = (prices.data ?? []).filter(
    (row) => (!origin || row.origin === origin) && row.model.toLowerCase().includes(wanted),
  );
  return (
    <section className="stack" aria-label="Prices">
      <div className="row">
        <label>
          Search
          <input type="search" value={search} onChange={(event) => show("search", event.target.value)} />
        </label>
        <label>
          Origin
          <select value={origin} onChange={(event) => show("origin", event.target.value)}>
            <option value="">All</option>
            <option value="shipped">Shipped</option>
            <option value="changed">Changed here</option>
          </select>
        </label>
        <label>
          USD for
          <select value={unit} onChange={(event) => show("unit", event.target.value === "1k" ? "1k" : "")}>
            <option value="1m">a million tokens</option>
            <option value="1k">a thousand tokens</option>
          </select>
        </label>
        <span className={styles.counted} role="status">
          {prices.data && `${rows.length} of ${prices.data.length} prices`}
        </span>
        <button type="button" onClick={onRecalculate}>
          Recalculate costs
        </button>
        <button type="button" className="primary" onClick={onAdd}>
          Set a price
        </button>
      </div>
      {prices.isPending && <Loading what="prices" />}
      {prices.isError && <Failure error={prices.error} again={() => prices.refetch()} />}
      {prices.data && rows.length === 0 && (
        <Empty title="Price not found">
          <p>{search || origin ? "No price matches the search." : "Set a price above."}</p>
        </Empty>
      )}
      {rows.length > 0 && (
        <div className={styles.tall} style={{ height: `min(max(320px, 60vh), ${rows.length * ROW_PX + HEAD_PX}px)` }}>
          <DataTable label="Prices" isPart columns={columns(unit)} rows={rows} rowKey={priceKey} onOpen={onOpen} />
        </div>
      )}
    </section>
  );
}

function columns(unit: Unit): Column<PriceRow>[] {
  const rate = (field: Field, title: string): Column<PriceRow> => ({
    id: field,
    title,
    width: "minmax(92px, 0.92fr)",
    isNumber: true,
    // A price that does not fit is cut at its end, never at its beginning.
    cell: (row) => {
      const price = row[`${field}_per_${unit}`];
      return price == null ? <span className="soft">–</span> : <span title={price}>{price}</span>;
    },
  });
  return [
    {
      id: "model",
      title: "Model",
      width: "minmax(230px, 2.3fr)",
      cell: (row) => <bdi className="mono">{row.model}</bdi>,
    },
    {
      id: "kind",
      title: "For",
      width: "minmax(110px, 1.1fr)",
      cell: (row) => (row.prefix ? <span className="chip info">prefixes</span> : "this name"),
    },
    {
      id: "from",
      title: "Effective from",
      width: "minmax(150px, 1.5fr)",
      cell: (row) =>
        row.effective_from?.replace("T00:00:00.000Z", " UTC") ?? <span className="soft">no start date</span>,
    },
    rate("input", "Prompt"),
    rate("output", "Answer"),
    rate("cached_input", "From cache"),
    rate("total", "Only total"),
    {
      id: "origin",
      title: "Origin",
      width: "minmax(100px, 1fr)",
      cell: (row) => <span className={row.origin === "changed" ? "chip good" : "chip"}>{row.origin}</span>,
    },
  ];
}
