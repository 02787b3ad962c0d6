/** Sets, changes or removes the price of a model. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { api, ask } from "../api/client";
import { Confirm, Dialog } from "../parts/dialog";
import { FormEnd } from "../parts/form-end";
import { Failure } from "../parts/notice";
import styles from "./operations.module.css";
import {
  type Field,
  isGood,
  keptText,
  type PriceFields,
  type PriceRow,
  priceBody,
  priceFault,
  priceFields,
} from "./price-body";

const LABELS: { field: Field; label: string; isNeeded: boolean }[] = [
  { field: "input", label: "Prompt", isNeeded: true },
  { field: "output", label: "Answer", isNeeded: true },
  { field: "cached_input", label: "Cached prompt (default: as the prompt)", isNeeded: false },
  { field: "total", label: "Only the total is known (default: as the prompt)", isNeeded: false },
];
const NEW: PriceFields = {
  input: "",
  output: "",
  cached_input: "",
  total: "",
  unit: "1m",
  effective_from: "",
  prefix: false,
};

type Props = {
  /** The row that is changed; none for a new one. */
  of?: PriceRow | undefined;
  /** The model of a new one, where it is known. */
  model?: string;
  /** It was set: the model, or nothing where it is for beginnings of names. */
  onSet: (model: string, isPrefix: boolean) => void;
  onRemove?: (() => void) | undefined;
  onClose: () => void;
};

/** The dialog. */
export function PriceForm({ of, model: given = "", onSet, onRemove, onClose }: Props) {
  const client = useQueryClient();
  const [model, setModel] = useState(of?.model ?? given);
  const [fields, setFields] = useState(of ? priceFields(of, "1m") : NEW);
  const [isTried, setIsTried] = useState(false);
  const change = (part: Partial<PriceFields>) => setFields((now) => ({ ...now, ...part }));
  const save = useMutation({
    mutationFn: () =>
      ask(
        api.PUT("/api/internal/prices/{model}", {
          params: { path: { model } },
          // The text goes as it is: the client would make numbers of it.
          body: priceBody(fields, of) as never,
          bodySerializer: (text) => text as unknown as string,
        }),
      ),
    onSuccess: () => {
      client.invalidateQueries({ queryKey: ["prices"] });
      client.invalidateQueries({ queryKey: ["unpriced"] });
      onSet(model, fields.prefix);
    },
  });
  const kept = of && keptText(of, fields.unit);
  return (
    <Dialog title={of ? "Change a price" : "Set a price"} onClose={onClose}>
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          setIsTried(true);
          if (isGood(fields) && model) save.mutate();
        }}
      >
        <label>
          Model
          <input
            value={model}
            required
            readOnly={of !== undefined}
            maxLength={512}
            spellCheck={false}
            dir="auto"
            aria-invalid={isTried && !model}
            onChange={(event) => setModel(event.target.value)}
          />
        </label>
        <label className="line">
          <input
            type="checkbox"
            checked={fields.prefix}
            disabled={of !== undefined}
            onChange={(event) => change({ prefix: event.target.checked })}
          />
          For all models with this prefix
        </label>
        <div className={styles.form}>
          <label>
            Effective from (empty: no start date)
            <input
              value={fields.effective_from}
              readOnly={of !== undefined}
              placeholder="2026-11-01"
              onChange={(event) => change({ effective_from: event.target.value })}
            />
          </label>
          <label>
            USD for
            <select
              value={fields.unit}
              onChange={(event) => {
                const unit = event.target.value as PriceFields["unit"];
                setFields(of ? { ...priceFields(of, unit) } : { ...fields, unit });
              }}
            >
              <option value="1m">a million tokens</option>
              <option value="1k">a thousand tokens</option>
            </select>
          </label>
          {LABELS.map(({ field, label, isNeeded }) => (
            <Rate
              key={field}
              label={label}
              value={fields[field]}
              fault={isTried ? priceFault(fields[field], fields.unit, isNeeded) : undefined}
              onChange={(text) => change({ [field]: text })}
            />
          ))}
        </div>
        {kept && <p className="soft">Also, and kept: {kept}</p>}
        <FormEnd error={save.error} isPending={save.isPending} verb="Save" meanwhile="Saving…" onCancel={onClose}>
          {onRemove && (
            <button type="button" className="danger" onClick={onRemove}>
              Remove this price
            </button>
          )}
        </FormEnd>
      </form>
    </Dialog>
  );
}

type RateProps = { label: string; value: string; fault: string | undefined; onChange: (text: string) => void };

function Rate({ label, value, fault, onChange }: RateProps) {
  const id = useId();
  // What is wrong is no part of the field's name.
  return (
    <div>
      <label className={styles.whole}>
        {label}
        <input
          inputMode="decimal"
          className="number"
          value={value}
          aria-invalid={fault !== undefined}
          aria-describedby={fault ? id : undefined}
          onChange={(event) => onChange(event.target.value)}
        />
      </label>
      {fault && (
        <div id={id} className={styles.error}>
          {fault}
        </div>
      )}
    </div>
  );
}

/** Asks before a price is removed. */
export function RemovePrice({ of, onClose }: { of: PriceRow; onClose: () => void }) {
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      ask(
        api.DELETE("/api/internal/prices/{model}", {
          params: {
            path: { model: of.model },
            query: { effective_from: of.effective_from ?? "none", prefix: of.prefix },
          },
        }),
      ),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["prices"] });
      client.invalidateQueries({ queryKey: ["unpriced"] });
      onClose();
    },
  });
  return (
    <Confirm
      title="Remove this price?"
      yes={remove.isPending ? "Removing…" : "Remove"}
      isPending={remove.isPending}
      onYes={() => remove.mutate()}
      onClose={onClose}
    >
      <p>
        <bdi>{of.model}</bdi>
        {of.prefix && " and names with this prefix"},{" "}
        {of.effective_from ? `from ${of.effective_from}` : "without a start date"}. From now on runs are priced by the
        next best row
        {of.origin === "shipped" && "; it is a shipped price"}.
      </p>
      {remove.isError && <Failure error={remove.error} />}
    </Confirm>
  );
}
