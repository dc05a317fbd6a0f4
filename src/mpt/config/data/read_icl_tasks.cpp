#include <mpt/config/data/read_icl_tasks.hpp>

#include <cstddef>
#include <optional>
#include <set>
#include <system_error>

#include <mpt/config/data/loader.hpp>
#include <mpt/yaml/document.hpp>

namespace mpt::eval {
namespace {

[[nodiscard]] std::vector<std::int64_t> read_shots(config_reader& reader) {
  constexpr std::int64_t max_shots = 10'000;
  config_node const* const node = reader.raw("num_fewshot");
  reader.check("num_fewshot", node != nullptr, "missing; it is required, a list such as [0, 3]");
  std::vector<config_node> const items =
      node->is_list() ? node->items : std::vector<config_node>{*node};
  std::vector<std::int64_t> out;
  for (auto const& item : items) {
    auto const parsed = item.is_scalar() ? parse_integer(item.text) : std::nullopt;
    auto const number = parsed.value_or(-1);
    reader.check("num_fewshot", number >= 0 && number <= max_shots, "expected numbers from 0 to ",
                 max_shots, ", found ", describe(item));
    out.push_back(number);
  }
  reader.check("num_fewshot", !out.empty(), "expected at least one number of examples");
  return out;
}

[[nodiscard]] task_config read_task(config_reader reader, task_defaults const& defaults) {
  task_config task;
  task.label = reader.required<std::string>("label");
  reader.check("label", !task.label.empty() && task.label.find('/') == std::string::npos,
               "expected a name without '/', found '", printable(task.label), "'");
  task.file =
      find_near(reader, "dataset_uri", reader.required<std::string>("dataset_uri"), defaults.file);
  reader.check("icl_task_type", reader.has_key("icl_task_type"), "missing; it is required");
  auto const kind = reader.one_of(
      "icl_task_type", "",
      {"language_modeling", "multiple_choice", "schema", "generation_task_with_answers"});
  for (auto const candidate : {task_kind::language_modeling, task_kind::multiple_choice,
                               task_kind::schema, task_kind::generation})
    if (kind == to_string(candidate)) task.kind = candidate;
  task.shots = read_shots(reader);
  for (auto const& metric : detail::read_strings(reader, "metric_names"))
    reader.check("metric_names", metric == metric_of(task.kind), "expected [", metric_of(task.kind),
                 "], the only score of ", kind, " here, found '", printable(metric), "'");
  task.prompt_string = reader.get("prompt_string", task.prompt_string);
  task.example_delimiter = reader.get("example_delimiter", task.example_delimiter);
  task.continuation_delimiter = reader.get("continuation_delimiter", task.continuation_delimiter);
  reader.check("prelimiter",
               !reader.has_key("prelimiter") || !reader.has_key("question_prelimiter"),
               "is question_prelimiter's other name; give one of them");
  task.question_prelimiter =
      reader.get("question_prelimiter", reader.get<std::string>("prelimiter", ""));
  task.has_categories = reader.get("has_categories", task.has_categories);
  auto const seed = reader.get<std::int64_t>("fewshot_random_seed", 1234);
  reader.check("fewshot_random_seed", seed >= 0, "must not be negative, found ", seed);
  task.seed = static_cast<std::uint64_t>(seed);
  task.batch_size = reader.get("batch_size", defaults.batch_size);
  reader.check("batch_size", task.batch_size > 0, "must be above 0");
  task.max_seq_len = reader.get("max_seq_len", defaults.max_seq_len);
  reader.check("max_seq_len", task.max_seq_len >= 2, "must be at least 2");
  if (task.kind == task_kind::generation) {
    task.cot_delimiter = reader.get("cot_delimiter", task.cot_delimiter);
    task.do_normalization = reader.get("do_normalization", task.do_normalization);
    task.stops = detail::read_strings(reader, "early_stopping_criteria");
    for (auto const& stop : task.stops)
      reader.check("early_stopping_criteria", !stop.empty(), "an empty text would end everything");
  } else {
    for (std::string_view const key :
         {"cot_delimiter", "do_normalization", "early_stopping_criteria"})
      reader.accept_without_effect(key, "belongs to generation_task_with_answers");
  }
  reader.accept_without_effect("pad_tok_id", "nothing is padded");
  for (std::string_view const key : {"hf_loading_vars", "hf_parsing_map"})
    reader.refuse_unsupported(key, "give a JSON lines file with the task's own keys");
  for (std::string_view const key :
       {"context_key", "answer_key", "choices_key", "generation_kwargs", "padding_size",
        "strip_dataset", "num_beams"})
    reader.refuse_unsupported(key, "leave it out");
  reader.finish();
  return task;
}

}  // namespace

std::filesystem::path find_near(config_reader const& reader, std::string_view key,
                                std::string const& name, std::filesystem::path const& file) {
  std::error_code failure;
  reader.check(key, !name.empty(), "expected the path of a file, found nothing");
  reader.check(key, !is_remote(name), "'", printable(name),
               "' is not on this machine; download it and give its path");
  if (std::filesystem::exists(name, failure)) return name;
  auto folder = std::filesystem::absolute(file, failure).parent_path();
  auto const config_folder = folder;
  if (!std::filesystem::path(name).is_absolute())
    for (;; folder = folder.parent_path()) {
      if (std::filesystem::exists(folder / name, failure)) return folder / name;
      if (folder == folder.parent_path()) break;
    }
  reader.fail(key, "there is no file '", printable(name), "' here, nor in ", config_folder.string(),
              " and the folders above it");
}

std::vector<task_config> read_task_list(config_node const& list, std::string const& path,
                                        task_defaults const& defaults, config_report& report) {
  parallel::require(list.is_list() && !list.items.empty(), list.location, ": ", path,
                    ": expected a list of tasks, found ", describe(list));
  std::vector<task_config> out;
  std::set<std::string> labels;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    auto const& item = list.items[i];
    out.push_back(read_task(config_reader(item, parallel::concat(path, ".", i), report), defaults));
    parallel::require(labels.insert(out.back().label).second, item.location, ": ", path, ".", i,
                      ": a second task with the label '", out.back().label,
                      "'; give it another, or list its numbers of examples together");
  }
  return out;
}

std::vector<task_config> read_task_file(std::filesystem::path const& file, task_defaults defaults,
                                        config_report& report) {
  defaults.file = file;
  auto const document = load_document(file);
  auto const* const list = document.find("icl_tasks");
  parallel::require(list != nullptr, document.location, ": expected a list under icl_tasks");
  return read_task_list(*list, "icl_tasks", defaults, report);
}

std::vector<task_config> read_icl_tasks(config_reader& reader, task_defaults const& defaults) {
  auto const* const list = reader.raw("icl_tasks");
  auto const* const name = reader.raw("icl_tasks_str");
  reader.check("icl_tasks_str", list == nullptr || name == nullptr,
               "is icl_tasks's other form; give one of them");
  if (list != nullptr && !list->is_scalar())
    return read_task_list(*list, "icl_tasks", defaults, reader.report());
  auto const key = list != nullptr ? "icl_tasks" : "icl_tasks_str";
  if (list == nullptr && name == nullptr) return {};
  return read_task_file(find_near(reader, key, reader.required<std::string>(key), defaults.file),
                        defaults, reader.report());
}

}  // namespace mpt::eval

namespace mpt::eval::detail {

std::vector<std::string> read_strings(config_reader& reader, std::string_view key) {
  std::vector<std::string> out;
  config_node const* const node = reader.raw(key);
  if (node == nullptr) return out;
  reader.check(key, node->is_list(), "expected a list of texts, found ", describe(*node));
  for (auto const& item : node->items) {
    reader.check(key, item.is_scalar(), "expected a list of texts, found ", describe(item));
    out.push_back(item.text);
  }
  return out;
}

}  // namespace mpt::eval::detail
