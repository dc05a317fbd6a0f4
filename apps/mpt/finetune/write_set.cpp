#include <mpt/finetune/write_set.hpp>

#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include <mpt/data/json.hpp>
#include <mpt/data/mds_writer.hpp>
#include <mpt/data/set_tokenizer.hpp>
#include <mpt/finetune/chat.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/finetune/tokenize_row.hpp>
#include <mpt/tokenizer/end_of_text.hpp>
#include <mpt/finetune/format_row.hpp>

namespace mpt::finetune {
namespace {

[[nodiscard]] std::string turns_text(std::vector<turn> const& turns) {
  auto list = nlohmann::json::array();
  for (auto const& one : turns)
    list.push_back({{"input_ids", one.prompt}, {"labels", one.response}});
  return data::python_json(list);
}

/// The roles in front of the contents, as the rows have them.
[[nodiscard]] std::string messages_text(std::vector<chat_message> const& messages) {
  std::string out;
  for (auto const& one : messages)
    out.append(out.empty() ? "[" : ", ")
        .append("{\"role\": ")
        .append(data::python_json(one.role))
        .append(", \"content\": ")
        .append(data::python_json(one.content))
        .append("}");
  return out + "]";
}

/// A folder that gets its name when all is in it; left before that, it is gone.
class folder_in_making {
 public:
  explicit folder_in_making(std::filesystem::path folder)
      : folder_(std::move(folder)), made_(folder_.native() + ".unfinished") {
    std::error_code failure;
    bool const there = std::filesystem::exists(folder_, failure);
    parallel::require(!there || std::filesystem::is_empty(folder_, failure), folder_.native(),
                      ": holds something already; name another folder, or remove it");
    std::filesystem::remove_all(made_, failure);
    std::filesystem::create_directories(made_, failure);
    parallel::require(std::filesystem::is_directory(made_), made_.native(),
                      ": the folder cannot be made: ", failure.message());
  }
  folder_in_making(folder_in_making const&) = delete;
  folder_in_making& operator=(folder_in_making const&) = delete;
  ~folder_in_making() {
    std::error_code ignored;
    std::filesystem::remove_all(made_, ignored);
  }

  [[nodiscard]] std::filesystem::path const& path() const { return made_; }
  void finish() const {
    std::error_code failure;
    std::filesystem::rename(made_, folder_, failure);
    parallel::require(!failure, folder_.native(), ": cannot be named so: ", failure.message());
  }

 private:
  std::filesystem::path folder_;
  std::filesystem::path made_;
};

}  // namespace

read_report write_set(finetuning_source const& source, write_options const& options,
                      tokenizer const* tokens) {
  folder_in_making const making(options.folder);
  auto const policy = read_target_policy(source.target_prompts, source.target_responses);
  std::optional<row_tokenizer> tokenize;
  if (tokens != nullptr) {
    require_end(*tokens, "training ends every response of the set with it");
    tokenize.emplace(*tokens, source.templates);
  }
  std::optional<data::mds_writer> writer;
  bool chats = false;
  read_report found;
  auto const write = [&](std::vector<data::mds_column> const& columns,
                         std::vector<std::string> const& values) {
    if (!writer)
      writer.emplace(making.path(), data::mds_writer_options{.columns = columns,
                                                             .compression = options.compression,
                                                             .hashes = options.hashes});
    (void)writer->write(std::vector<std::string_view>(values.begin(), values.end()));
  };
  auto const add = [&](nlohmann::json const& given, std::string_view where) {
    auto const row = format_row(source.preprocess ? source.preprocess(given, where) : given, where);
    ++found.rows;
    if (tokenize) {
      auto const turns = tokenize->turns(row, where);
      if (!stitch_turns(turns, policy, source.max_seq_len, std::nullopt)) {
        ++found.dropped;
        return;
      }
      found.truncated += length_of(turns, tokens->eos_id()) > source.max_seq_len ? 1 : 0;
      write({{"turns", "json"}}, {turns_text(turns)});
      return;
    }
    auto const* const chat = std::get_if<std::vector<chat_message>>(&row);
    if (!writer) chats = chat != nullptr;
    parallel::require(chats == (chat != nullptr), where, ": a ",
                      chats ? "prompt with its response" : "conversation",
                      ", where the first row is none; write the two to sets of their own");
    if (chat != nullptr) {
      write({{"messages", "json"}}, {messages_text(*chat)});
    } else {
      auto const& [prompt, response] = std::get<turn_text>(row);
      write({{"prompt", "str"}, {"response", "str"}}, {prompt, response});
    }
  };
  for (auto const& file : source.files) read_rows(file, add, source.parquet);
  parallel::require(writer.has_value(), "of ", found.rows, " rows none is left to write: ",
                    found.rows == 0 ? "the files hold none"
                                    : "prompt or response is empty, or the prompt alone has "
                                      "max_seq_len tokens");
  (void)writer->finish();
  if (tokens != nullptr)
    parallel::write_text_file(
        making.path() / "prepare.json",
        data::python_json(
            {{"parameters", {{"tokenizer", data::fingerprint_text(tokens->fingerprint())}}}}) +
            "\n");
  making.finish();
  return found;
}

}  // namespace mpt::finetune
