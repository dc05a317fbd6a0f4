#include <planner/run_file.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <mpt/yaml/document.hpp>
#include <mpt/yaml/to_yaml.hpp>

#include <planner/print_layouts.hpp>

namespace apps {

std::string_view program_of_run(mpt::train_config const& config) {
  return config.data.train_loader.finetuning ? "finetune" : "pretrain";
}

std::string run_file_text(std::filesystem::path const& file,
                          std::vector<std::string> const& overrides, candidate const& c,
                          parallel::cluster::cluster const& machines) {
  auto with_settings = overrides;
  with_settings.insert(with_settings.end(), c.settings.begin(), c.settings.end());
  with_settings.push_back(fmt::format("ranks={}", machines.devices()));
  if (!c.settings.empty())
    with_settings.emplace_back("fsdp_config.sharding_strategy=");  // zero_stage decides
  auto const read = mpt::load_document(file, with_settings);
  mpt::config_node run;
  run.type = mpt::config_node::kind::map;
  for (std::size_t i = 0; i < read.keys.size(); ++i)  // nothing refers to variables any more
    if (!std::ranges::count(mpt::variable_mappings, read.keys[i].name))
      run.set(read.keys[i], read.items[i]);
  return fmt::format("# {} for {}, by plan: {}.\n{}", file.filename().string(), machines.name,
                     name_of_layout(c), mpt::to_yaml(run));
}

}  // namespace apps
