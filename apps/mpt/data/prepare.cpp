#include <mpt/data/prepare.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include <mpt/data/folder_lock.hpp>
#include <mpt/data/json.hpp>
#include <mpt/data/parameters_record.hpp>

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
    if (options_->late) options_->late->get(file_);
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
    return options_->late ? options_->late->bytes[input]
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
    detail::require_same_parameters(detail::member(object, "parameters", record.native()),
                                    parameters, folder);
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
  total.samples = detail::count_member(object, "samples", record.native());
  total.shards = detail::count_member(object, "shards", record.native());
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

}  // namespace

prepare_result prepare(prepare_options const& options,
                       std::function<text_encoder()> const& make_encoder) {
  auto const start_time = std::chrono::steady_clock::now();
  require_valid(options);
  auto const parameters = detail::prepare_parameters(options);
  mds_writer_options const layout{
      {{"tokens", "ndarray:int32"}}, options.compression, options.hashes, options.size_limit};
  auto const encoding = detail::layout_of(layout).encodings[0];  // checks the options, too
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

  auto const start = journal.position();
  detail::prepare_counts counts = start.counts;
  auto& total = result.total;
  for (auto const& shard : journal.shards()) total.samples += shard.samples;
  mds_writer writer(result.folder, layout, journal.shards());
  concatenator concatenated(options.concat, {counts.documents, start.offset});
  std::deque<detail::prepare_position>
      document_starts;  // from document `first_document` to the last appended one
  std::uint64_t first_document = counts.documents;

  std::vector<std::uint64_t> const dims{options.concat.sample_ids};
  std::string value;
  auto const is_full = [&] { return options.max_samples && total.samples >= *options.max_samples; };
  auto const emit = [&](std::span<std::int32_t const> ids, token_position begin) {
    if (is_full()) return;
    for (; first_document < begin.document; ++first_document) document_starts.pop_front();
    value.clear();
    encoding.encode_array(value, ids, dims);
    std::string_view const values[] = {value};
    if (writer.write(values)) {
      auto position = document_starts.front();
      position.offset = begin.offset;
      journal.append(writer.shards().back(), position);
    }
    ++total.samples;
  };

  batch_reader reader(options, start);
  total.input_total = reader.input_total;
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
  while (!is_full()) {
    read_ahead();
    if (workers.pending() == 0) break;
    auto const batch = workers.pop();
    for (std::size_t i = 0; i < batch.ends.size() && !is_full(); ++i) {
      auto const begin = i == 0 ? 0 : batch.ends[i - 1];
      document_starts.push_back({batch.file, batch.documents[i], 0, counts});
      counts.tokens +=
          concatenated.append(std::span(batch.ids).subspan(begin, batch.ends[i] - begin), emit);
      counts.bytes += batch.text_bytes[i];
      ++counts.documents;
    }
    total.documents = counts.documents;
    total.bytes = counts.bytes;
    total.tokens = counts.tokens;
    total.shards = writer.shards().size();
    total.input_read = batch.input_read;
    total.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time).count();
    if (options.progress) options.progress(total);
  }
  parallel::require(options.may_be_empty || total.samples > 0, "the inputs give ", counts.tokens,
                    " ids, fewer than one sample of ", options.concat.sample_ids,
                    ": give more text or a smaller concat_tokens");
  total.shards = writer.finish().size();
  auto summary = detail::to_json(counts);
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
      {"inputs",
       options.late ? nlohmann::json(options.late->identities) : file_identities(options.inputs)},
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
