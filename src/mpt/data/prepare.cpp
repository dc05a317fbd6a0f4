#include <mpt/data/prepare.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include <mpt/data/json.hpp>
#include <mpt/data/locks.hpp>
#include <mpt/data/records.hpp>

namespace mpt::data {
namespace {

/// Reads batches of rows from all inputs, beginning at a position.
class batch_reader {
 public:
  struct batch {
    std::uint64_t file = 0;
    std::vector<std::uint64_t> documents;  // numbers of the rows within the file
    std::string name;
    text_format format = text_format::plain;
    std::vector<std::string> rows;
    std::vector<std::uint64_t> lines;
    std::uint64_t input_read = 0;
  };

  batch_reader(prepare_options const& options, detail::prepare_position const& start)
      : options_(&options), file_(start.file), skipped_documents_(start.document) {
    for (std::size_t i = 0; i < options.inputs.size(); ++i) {
      auto const bytes = size_of(i);
      input_total += bytes;
      if (i < file_) finished_bytes_ += bytes;
    }
  }

  std::uint64_t input_total = 0;

  /// The next rows of the open input, about `batch_bytes`; returns false when it has no more.
  [[nodiscard]] bool next(batch& out) {
    out = {};
    if (!reader_) return false;
    std::uint64_t bytes = 0;
    std::string row;
    out.file = file_;
    out.name = reader_->name();
    out.format = reader_->format();
    while (bytes < options_->batch_bytes && reader_->next(row)) {
      if (is_selected(document_)) {
        bytes += row.size();  // other rows do not count: they would fill a batch without any row
        out.rows.push_back(std::move(row));
        out.lines.push_back(reader_->line());
        out.documents.push_back(document_);
      }
      ++document_;
    }
    out.input_read = finished_bytes_ + reader_->consumed();
    if (bytes < options_->batch_bytes) {
      finished_bytes_ += size_of(file_);
      reader_.reset();
      ++file_;
    }
    return !out.rows.empty();
  }

  /// Opens the next input; returns false when there is none.
  [[nodiscard]] bool open_next() {
    if (file_ == options_->inputs.size()) return false;
    if (options_->deferred_inputs) options_->deferred_inputs->fetch(file_);
    reader_ = std::make_unique<document_reader>(options_->inputs[file_], options_->documents);
    std::string row;
    for (document_ = 0; document_ < skipped_documents_; ++document_)
      parallel::require(reader_->next(row), reader_->name(), ": has fewer than the ",
                        skipped_documents_,
                        " documents the interrupted run saw; start over in an empty folder");
    skipped_documents_ = 0;
    return true;
  }

 private:
  [[nodiscard]] std::uint64_t size_of(std::size_t input) const {
    return options_->deferred_inputs ? options_->deferred_inputs->bytes[input]
                                     : std::filesystem::file_size(options_->inputs[input]);
  }

  /// Whether the set holds `document`. One of every k documents is held out; the first one differs
  /// from file to file.
  [[nodiscard]] bool is_selected(std::uint64_t document) const {
    if (options_->part == document_part::all) return true;
    bool const held_out = (options_->first_input + file_ + document) % options_->hold_out_every ==
                          options_->hold_out_every - 1;
    return held_out == (options_->part == document_part::held_out);
  }

  prepare_options const* options_;
  std::uint64_t file_;
  std::uint64_t skipped_documents_;
  std::uint64_t document_ = 0;
  std::uint64_t finished_bytes_ = 0;  // bytes of the files before file_
  std::unique_ptr<document_reader> reader_;
};

/// A batch after tokenisation: the ids of all documents end to end, and the end of each document.
struct encoded_batch {
  std::uint64_t file = 0;
  std::vector<std::uint64_t> documents;
  std::uint64_t input_read = 0;
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> ends;
  std::vector<std::uint64_t> text_bytes;
};

[[nodiscard]] encoded_batch encode_batch(batch_reader::batch& rows, text_encoder const& encode) {
  encoded_batch out{rows.file, std::move(rows.documents), rows.input_read, {}, {}, {}};
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    auto const text = rows.format == text_format::json_lines
                          ? text_of_row(rows.rows[i], rows.name, rows.lines[i])
                          : std::move(rows.rows[i]);
    encode(text, out.ids);
    out.ends.push_back(out.ids.size());
    out.text_bytes.push_back(text.size());
  }
  return out;
}

/// The status of the run that begins in `folder`: `written` if it writes the whole set, `resumed`
/// if it continues an interrupted run, or already_complete. Throws if another program, or a run
/// with other parameters, left files there.
[[nodiscard]] prepare_status inspect_output(std::filesystem::path const& folder,
                                            nlohmann::json const& parameters) {
  bool const indexed = std::filesystem::exists(folder / "index.json");
  auto const record = folder / "prepare.json";
  if (indexed && std::filesystem::exists(record)) {
    auto const text = parallel::read_text_file(record, 1U << 26);
    auto const object = parse_json(text, record.native());
    detail::require_same_parameters(member(object, "parameters", record.native()), parameters,
                                    folder);
    return prepare_status::already_complete;
  }
  std::string foreign = indexed ? "index.json" : "";
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    auto const name = entry.path().filename().native();
    if (name.ends_with(".tmp") && (name.starts_with("shard.") || name.starts_with("index.json") ||
                                   name.starts_with("prepare.")))
      std::filesystem::remove(entry.path());
    else if (name.starts_with("shard.") || name.starts_with("part-"))
      foreign = name;
  }
  if (detail::prepare_journal(folder).exists()) return prepare_status::resumed;
  parallel::require(foreign.empty(), folder.native(), ": already holds ", foreign,
                    ", which prepare did not leave; choose another folder or remove this one");
  return prepare_status::written;
}

/// The sums that `record`, a complete set's prepare.json, holds.
[[nodiscard]] prepare_progress recorded_total(std::filesystem::path const& record) {
  auto const object = parse_json(parallel::read_text_file(record, 1U << 26), record.native());
  auto const counts = detail::counts_from_json(object, record.native());
  prepare_progress total;
  total.documents = counts.documents;
  total.bytes = counts.bytes;
  total.tokens = counts.tokens;
  total.samples = count_member(object, "samples", record.native());
  total.shards = count_member(object, "shards", record.native());
  return total;
}

void require_valid(prepare_options const& options) {
  parallel::require(!options.inputs.empty(), "prepare needs at least one input file");
  parallel::require(options.workers > 0 && options.batch_bytes > 0,
                    "prepare needs at least one worker and a positive batch size");
  parallel::require(!options.concat.bos.empty() || !options.concat.eos.empty(),
                    "documents would run together: give a text that separates them, for "
                    "GPT-NeoX --eos_text '<|endoftext|>'");
  parallel::require(options.part == document_part::all || options.hold_out_every >= 2,
                    "hold_out_every is ", options.hold_out_every,
                    ", but must be at least 2: at 1 every document would be held out");
  parallel::require(options.split.empty() || is_plain_path(options.split), "split '", options.split,
                    "' is not the name of a sub-folder");
}

/// Cuts the ids of documents into samples and writes them. The journal gets each finished shard.
class sample_writer {
 public:
  /// Goes on where the journal ends; keeps `total`, except for its time.
  sample_writer(prepare_options const& options, mds_writer_options const& layout,
                std::filesystem::path const& folder, detail::prepare_journal& journal,
                prepare_progress& total)
      : options_(&options),
        journal_(&journal),
        total_(&total),
        encoding_(detail::layout_of(layout).encodings[0]),
        sample_shape_{options.concat.sample_ids},
        counts_(journal.position().counts),
        first_document_(counts_.documents),
        writer_(folder, layout, journal.shards()),
        concatenated_(options.concat, {counts_.documents, journal.position().offset}) {}

  /// Whether there are as many samples as were asked for.
  [[nodiscard]] bool is_full() const {
    return options_->max_samples && total_->samples >= *options_->max_samples;
  }

  void append(encoded_batch const& batch) {
    auto const write = [this](std::span<std::int32_t const> ids, token_position begin) {
      write_sample(ids, begin);
    };
    for (std::size_t i = 0; i < batch.ends.size() && !is_full(); ++i) {
      auto const begin = i == 0 ? 0 : batch.ends[i - 1];
      document_starts_.push_back({batch.file, batch.documents[i], 0, counts_});
      counts_.tokens +=
          concatenated_.append(std::span(batch.ids).subspan(begin, batch.ends[i] - begin), write);
      counts_.bytes += batch.text_bytes[i];
      ++counts_.documents;
    }
    total_->documents = counts_.documents;
    total_->bytes = counts_.bytes;
    total_->tokens = counts_.tokens;
    total_->shards = writer_.shards().size();
    total_->input_read = batch.input_read;
  }

  /// Writes the last shard and the index. Returns the counts for the record.
  [[nodiscard]] nlohmann::json finish() {
    total_->shards = writer_.finish().size();
    return detail::to_json(counts_);
  }

 private:
  void write_sample(std::span<std::int32_t const> ids, token_position begin) {
    if (is_full()) return;
    for (; first_document_ < begin.document; ++first_document_) document_starts_.pop_front();
    value_.clear();
    encoding_.encode_array(value_, ids, sample_shape_);
    std::string_view const values[] = {value_};
    if (writer_.write(values)) {
      auto position = document_starts_.front();
      position.offset = begin.offset;
      journal_->append(writer_.shards().back(), position);
    }
    ++total_->samples;
  }

  prepare_options const* options_;
  detail::prepare_journal* journal_;
  prepare_progress* total_;
  mds_encoding encoding_;
  std::vector<std::uint64_t> sample_shape_;
  detail::prepare_counts counts_;
  std::uint64_t first_document_;
  mds_writer writer_;
  concatenator concatenated_;
  std::deque<detail::prepare_position> document_starts_;  // from first_document_ to the last one
  std::string value_;
};

}  // namespace

prepare_result prepare(prepare_options const& options,
                       std::function<text_encoder()> const& make_encoder) {
  auto const start_time = std::chrono::steady_clock::now();
  require_valid(options);
  auto const parameters = detail::prepare_parameters(options);
  mds_writer_options const layout{
      {{"tokens", "ndarray:int32"}}, options.compression, options.hashes, options.size_limit};
  static_cast<void>(detail::layout_of(layout));  // checks the options
  prepare_result result;
  result.folder = options.split.empty() ? options.out_root : options.out_root / options.split;
  std::filesystem::create_directories(result.folder);
  folder_lock const lock(result.folder);

  result.status = inspect_output(result.folder, parameters);
  detail::prepare_journal journal(result.folder);
  auto const record = result.folder / "prepare.json";
  if (result.status == prepare_status::already_complete) {
    result.total = recorded_total(record);
    journal.remove();
    return result;
  }
  if (result.status == prepare_status::resumed)
    journal.resume(parameters);
  else
    journal.create(parameters);

  auto& total = result.total;
  for (auto const& shard : journal.shards()) total.samples += shard.samples;
  batch_reader reader(options, journal.position());
  total.input_total = reader.input_total;
  sample_writer samples(options, layout, result.folder, journal, total);
  ordered_workers<batch_reader::batch, encoded_batch> workers(options.workers, [&] {
    return
        [encode = make_encoder()](batch_reader::batch& rows) { return encode_batch(rows, encode); };
  });
  auto const read_ahead = [&] {
    batch_reader::batch rows;
    while (workers.pending() < 2 * options.workers + 2)
      if (reader.next(rows))
        workers.push(std::move(rows));
      else if ((options.max_samples && workers.pending() > 0) || !reader.open_next())
        return;  // what is pending may fill the set, which then needs no further input
  };
  while (!samples.is_full()) {
    read_ahead();
    if (workers.pending() == 0) break;
    samples.append(workers.pop());
    total.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time).count();
    if (options.progress) options.progress(total);
  }
  parallel::require(options.may_be_empty || total.samples > 0, "the inputs give ", total.tokens,
                    " ids, fewer than one sample of ", options.concat.sample_ids,
                    ": give more text or a smaller concat_tokens");
  auto summary = samples.finish();
  summary["parameters"] = parameters;
  summary["samples"] = total.samples;
  summary["shards"] = total.shards;
  parallel::replace_text_file(record, python_json(summary) + "\n");
  journal.remove();
  total.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time).count();
  return result;
}

}  // namespace mpt::data

namespace mpt::data::detail {

nlohmann::json prepare_parameters(prepare_options const& options) {
  nlohmann::json out{
      {"inputs", options.deferred_inputs ? nlohmann::json(options.deferred_inputs->identities)
                                         : file_identities(options.inputs)},
      {"tokenizer", options.tokenizer},
      {"concat_tokens", options.concat.sample_ids},
      {"bos_ids", options.concat.bos},
      {"eos_ids", options.concat.eos},
      {"no_wrap", options.concat.wrapping == wrap::no},
      {"compression", options.compression},
      {"hashes", options.hashes},
      {"size_limit", options.size_limit.value_or(0)},
      {"plain_text_bytes", options.documents.plain_text_bytes},
      {"part", static_cast<int>(options.part)},
      {"hold_out_every", options.part == document_part::all ? 0 : options.hold_out_every}};
  if (options.part != document_part::all && options.first_input > 0)
    out["first_input"] = options.first_input;
  if (options.max_samples) out["max_samples"] = *options.max_samples;
  if (options.processes > 0) {
    out["processes"] = options.processes;
    out["all_inputs"] = file_identities(options.all_inputs);
  }
  return out;
}

}  // namespace mpt::data::detail
