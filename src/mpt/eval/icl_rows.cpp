#include <mpt/eval/icl_rows.hpp>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/eval/python_text.hpp>

namespace mpt::eval {
namespace {

/// Typed members of one row.
class row_reader {
 public:
  row_reader(nlohmann::json const& row, std::string location)
      : row_(row), location_(std::move(location)) {
    if (row_.is_object()) return;
    parallel::fail(location_, ": expected a JSON object, found ",
                   parallel::concat(row_.type_name()));
  }

  [[nodiscard]] nlohmann::json const* find(char const* key) const {
    auto const found = row_.find(key);
    return found == row_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] nlohmann::json const& get(char const* key) const {
    auto const* const value = find(key);
    if (value != nullptr) return *value;
    std::string keys;
    for (auto const& [name, member] : row_.items())
      if (keys.size() < 300) keys += parallel::concat(keys.empty() ? "\"" : ", \"", name, "\"");
    parallel::fail(location_, ": the row has no \"", key, "\"; its keys are ",
                   keys.empty() ? "none" : keys);
  }
  /// Text without white space around it.
  [[nodiscard]] std::string text(char const* key) const { return std::string(strip(raw(key))); }
  [[nodiscard]] std::string const& raw(char const* key) const {
    auto const& value = get(key);
    parallel::require(value.is_string(), location_, ": \"", key, "\" is of type ",
                      value.type_name(), ", expected a string");
    return value.get_ref<std::string const&>();
  }
  [[nodiscard]] std::vector<std::string> texts(char const* key, task_limits const& limits) const {
    auto const& value = get(key);
    parallel::require(value.is_array() && value.size() <= limits.options, location_, ": \"", key,
                      "\" is ", value.is_array() ? "a list of too many" : value.type_name(),
                      ", expected a list of at most ", limits.options, " strings");
    std::vector<std::string> out;
    for (auto const& item : value) {
      parallel::require(item.is_string(), location_, ": \"", key, "\" holds ", item.type_name(),
                        ", expected strings");
      out.push_back(item.get<std::string>());
    }
    return out;
  }
  /// An index into a list of `size`.
  [[nodiscard]] std::size_t index(char const* key, std::size_t size) const {
    auto const& value = get(key);
    parallel::require(value.is_number_unsigned() && value.get<std::uint64_t>() < size, location_,
                      ": \"", key, "\" is ", printable_value(value), ", expected an index below ",
                      size, ", the number of options");
    return value.get<std::size_t>();
  }

 private:
  [[nodiscard]] static std::string printable_value(nlohmann::json const& value) {
    return value.is_number() ? value.dump() : std::string(value.type_name());
  }

  nlohmann::json const& row_;
  std::string location_;
};

[[nodiscard]] task_row read_row(nlohmann::json const& json, task_config const& task,
                                std::string const& location, task_limits const& limits) {
  row_reader const reader(json, location);
  task_row row;
  auto const options = [&](char const* key) {
    row.options = reader.texts(key, limits);
    parallel::require(!row.options.empty(), location, ": \"", key, "\" is an empty list");
    row.gold = reader.index("gold", row.options.size());
  };
  switch (task.kind) {
    case task_kind::language_modeling:
      row.context = reader.text("context");
      row.answer = reader.text("continuation");
      break;
    case task_kind::multiple_choice:
      row.context = reader.text("query");
      options("choices");
      break;
    case task_kind::schema:
      options("context_options");
      row.answer = reader.text("continuation");
      break;
    case task_kind::generation:
      row.context = reader.text("context");
      row.answer = reader.text("answer");
      if (reader.find("aliases") != nullptr) row.options = reader.texts("aliases", limits);
      if (auto const& answer = reader.raw("answer");
          std::ranges::find(row.options, answer) == row.options.end())
        row.options.insert(row.options.begin(), answer);
      if (reader.find("chain_of_thought") != nullptr)
        row.chain_of_thought = reader.text("chain_of_thought");
      break;
  }
  if (task.has_categories) row.category = reader.raw("category");
  return row;
}

}  // namespace

std::map<std::string, task_rows> read_task_rows(task_config const& task,
                                                task_limits const& limits) {
  auto const require_json_lines = [&](bool is_json_lines) {
    parallel::require(is_json_lines, task.file.string(),
                      ": a task is read from JSON lines (.jsonl, .jsonl.gz, .jsonl.zst)");
  };
  require_json_lines(!data::is_parquet(task.file));
  data::document_reader file(task.file, {.max_line_bytes = limits.line_bytes});
  require_json_lines(file.format() == data::text_format::json_lines);
  std::map<std::string, task_rows> out;
  std::uint64_t first_with_thought = 0, first_without = 0;
  std::size_t count = 0;
  for (std::string text; file.next(text);) {
    auto const location = parallel::concat(file.name(), ":", file.line());
    parallel::require(++count <= limits.rows, location, ": more than ", limits.rows, " rows");
    auto const json = parallel::checkpoint::parse_json(text, location);
    auto row = read_row(json, task, location, limits);
    row.line = file.line();
    auto& part = out[row.category];
    if (task.kind == task_kind::generation) {
      auto const thought = json.find("chain_of_thought");
      bool const has_thought = thought != json.end() && thought->is_string();
      auto& first_line = has_thought ? first_with_thought : first_without;
      if (first_line == 0) first_line = row.line;
      parallel::require(first_with_thought == 0 || first_without == 0, location,
                        ": a row with and one without \"chain_of_thought\" (lines ",
                        first_with_thought, " and ", first_without,
                        "); give it in every row or in none");
      part.has_chain_of_thought = has_thought;
      auto const thought_text = has_thought ? thought->get<std::string>() + task.cot_delimiter : "";
      for (auto const& answer : row.options) part.answer_texts.push_back(thought_text + answer);
    }
    part.rows.push_back(std::move(row));
  }
  parallel::require(count > 0, file.name(), ": has no rows; expected one JSON object a line");
  for (auto& [category, part] : out)
    part.name = category.empty() ? file.name() : file.name() + " (" + category + ")";
  return out;
}

std::vector<loaded_task> load_tasks(std::vector<task_config> const& tasks) {
  std::vector<loaded_task> out;
  for (auto const& task : tasks) out.push_back({task, read_task_rows(task)});
  return out;
}

}  // namespace mpt::eval
