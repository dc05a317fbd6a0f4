#include <mpt/plan/known_programs.hpp>

#include <mpt/yaml/document.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {
namespace {

/// read(reader) of the first entry of a document that fits; `fallback` if none does.
template <class Read, class Result>
[[nodiscard]] Result first_entry(config_node const& document, std::string const& program,
                                 std::string const& gpu, std::string const& notes, Read const& read,
                                 Result fallback) {
  config_report report;
  for (auto const& entry : document.items) {
    config_reader reader(entry, "", report);
    if (program == reader.required<std::string>("program") &&
        gpu == reader.get<std::string>("gpu", gpu) &&
        notes.find(reader.get<std::string>("notes", "")) != std::string::npos)
      return read(reader, fallback);
  }
  return fallback;
}

}  // namespace

parallel::cluster::program_costs costs_of_program(std::string const& program,
                                                  std::string const& gpu,
                                                  std::string const& notes) {
  using costs = parallel::cluster::program_costs;
  auto const read = [](config_reader& reader, costs const& defaults) {
    return costs{
        .products = reader.get<double>("products", defaults.products),
        .attention = reader.get<double>("attention", defaults.attention),
        .elements = reader.get<double>("elements", defaults.elements),
        .axes = reader.get<double>("axes", defaults.axes),
        .exposed_exchanges = reader.get<double>("exposed_exchanges", defaults.exposed_exchanges)};
  };
  return first_entry(parse_yaml(detail::known_programs, "programs.yaml"), program, gpu, notes, read,
                     costs{});
}

parallel::cluster::program_memory memory_of_program(std::string const& program,
                                                    std::string const& gpu,
                                                    std::string const& notes) {
  using memory = parallel::cluster::program_memory;
  auto const read = [](config_reader& reader, memory const& defaults) {
    return memory{.gradient_bytes = reader.get<double>("gradient_bytes", defaults.gradient_bytes),
                  .state_bytes = reader.get<double>("state_bytes", defaults.state_bytes),
                  .activations = reader.get<double>("activations", defaults.activations),
                  .gathers_again = reader.get<bool>("gathers_again", defaults.gathers_again),
                  .logit_bytes = reader.get<double>("logit_bytes", defaults.logit_bytes),
                  .gathers_logits = reader.get<bool>("gathers_logits", defaults.gathers_logits),
                  .score_bytes = reader.get<double>("score_bytes", defaults.score_bytes),
                  .residual_bytes = reader.get<double>("residual_bytes", defaults.residual_bytes),
                  .workspace = reader.get<double>("workspace", defaults.workspace)};
  };
  return first_entry(parse_yaml(detail::known_program_memory, "program_memory.yaml"), program, gpu,
                     notes, read, memory{});
}

}  // namespace mpt
