#include <mpt/finetune/write_set.hpp>

#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include <mpt/data/json.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/records.hpp>
#include <mpt/finetune/chat.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::finetune {
namespace {

[[nodiscard]] std::string turns_text(std::vector<turn> const& turns) {
  auto list = nlohmann::json::array();
  for (auto const& turn_ids : turns)
    list.push_back({{"input_ids", turn_ids.prompt}, {"labels", turn_ids.response}});
  return data::python_json(list);
}

/// The messages as JSON with the role before the content, which a JSON object would sort.
[[nodiscard]] std::string messages_text(std::vector<chat_message> const& messages) {
  std::string out;
  for (auto const& message : messages)
    out.append(out.empty() ? "[" : ", ")
        .append("{\"role\": ")
        .append(data::python_json(message.role))
        .append(", \"content\": ")
        .append(data::python_json(message.content))
        .append("}");
  return out + "]";
}

/// A folder that is filled under a temporary name. finish() gives it its final name; without
/// finish() the destructor removes it.
class unfinished_folder {
 public:
  explicit unfinished_folder(std::filesystem::path folder)
      : folder_(std::move(folder)), temporary_(folder_.native() + ".unfinished") {
    std::error_code failure;
    bool const exists = std::filesystem::exists(folder_, failure);
    parallel::require(!exists || std::filesystem::is_empty(folder_, failure), folder_.native(),
                      ": holds something already; name another folder, or remove it");
    std::filesystem::remove_all(temporary_, failure);
    std::filesystem::create_directories(temporary_, failure);
    parallel::require(std::filesystem::is_directory(temporary_), temporary_.native(),
                      ": the folder cannot be made: ", failure.message());
  }
  unfinished_folder(unfinished_folder&&) = delete;
  ~unfinished_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(temporary_, ignored);
  }

  [[nodiscard]] std::filesystem::path const& path() const { return temporary_; }
  void finish() const {
    std::error_code failure;
    std::filesystem::rename(temporary_, folder_, failure);
    parallel::require(!failure, folder_.native(), ": cannot be named so: ", failure.message());
  }

 private:
  std::filesystem::path folder_;
  std::filesystem::path temporary_;
};

}  // namespace

read_report write_set(finetuning_source const& source, write_options const& options,
                      tokenizer const* tokenizer) {
  unfinished_folder const folder(options.folder);
  auto const policy = read_target_policy(source.target_prompts, source.target_responses);
  std::optional<row_tokenizer> tokenize;
  if (tokenizer != nullptr) {
    require_end(*tokenizer, "training ends every response of the set with it");
    tokenize.emplace(*tokenizer, source.date);
  }
  std::optional<data::mds_writer> writer;
  bool holds_chats = false;
  read_report report;
  auto const write = [&](std::vector<data::mds_column> const& columns,
                         std::vector<std::string> const& values) {
    if (!writer)
      writer.emplace(folder.path(), data::mds_writer_options{.columns = columns,
                                                             .compression = options.compression,
                                                             .hashes = options.hashes});
    (void)writer->write(std::vector<std::string_view>(values.begin(), values.end()));
  };
  auto const add = [&](nlohmann::json const& original_row, std::string_view location) {
    auto const row = format_row(
        source.preprocess ? source.preprocess(original_row, location) : original_row, location);
    ++report.rows;
    if (tokenize) {
      auto const turns = tokenize->turns(row, location);
      if (!stitch_turns(turns, policy, source.max_seq_len, std::nullopt)) {
        ++report.dropped;
        return;
      }
      report.truncated += joined_length(turns, tokenizer->eos_id()) > source.max_seq_len ? 1 : 0;
      write({{"turns", "json"}}, {turns_text(turns)});
      return;
    }
    auto const* const chat = std::get_if<std::vector<chat_message>>(&row);
    if (!writer) holds_chats = chat != nullptr;
    parallel::require(holds_chats == (chat != nullptr), location, ": a ",
                      holds_chats ? "prompt with its response" : "conversation",
                      ", but the first row is not one; write the two to separate sets");
    if (chat != nullptr) {
      write({{"messages", "json"}}, {messages_text(*chat)});
    } else {
      auto const& [prompt, response] = std::get<turn_text>(row);
      write({{"prompt", "str"}, {"response", "str"}}, {prompt, response});
    }
  };
  for (auto const& file : source.files) read_rows(file, add, source.parquet);
  parallel::require(writer.has_value(), "of ", report.rows, " rows none is left to write: ",
                    report.rows == 0 ? "the files hold none"
                                     : "prompt or response is empty, or the prompt alone has "
                                       "max_seq_len tokens");
  (void)writer->finish();
  if (tokenizer != nullptr)
    parallel::write_text_file(
        folder.path() / "prepare.json",
        data::python_json(
            {{"parameters", {{"tokenizer", parallel::hexadecimal(tokenizer->fingerprint())}}}}) +
            "\n");
  folder.finish();
  return report;
}

}  // namespace mpt::finetune
