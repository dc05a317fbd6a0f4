#include <mpt/plan/write_cluster.hpp>

#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mpt {

namespace cluster = parallel::cluster;

namespace {

[[nodiscard]] std::string_view precision_of(int bytes) {
  return bytes == 1 ? "fp8" : bytes == 2 ? "bf16" : bytes == 4 ? "fp32" : "fp64";
}

[[nodiscard]] std::string text_of(cluster::rate_curve const& curve) {
  std::string out;
  for (auto const& [size, rate] : curve.points())
    out += fmt::format("{}[{:.12g}, {:.4g}]", out.empty() ? "" : ", ", size, rate);
  return "[" + out + "]";
}

[[nodiscard]] std::string text_of(cluster::link const& link, int devices) {
  auto out = fmt::format("{{latency: {:.3g}, rate: {:.4g}", link.latency, link.rate * devices);
  if (link.sum_rate > 0) out += fmt::format(", sum_rate: {:.4g}", link.sum_rate * devices);
  if (!link.efficiency.empty()) out += ", efficiency: " + text_of(link.efficiency);
  if (link.processor_share > 0)
    out += fmt::format(", processor_share: {:.3g}", link.processor_share);
  return out + "}";
}

[[nodiscard]] std::string text_of(cluster::processor const& device) {
  std::string out;
  auto const line = [&]<class... Values>(fmt::format_string<Values...> text, Values&&... values) {
    fmt::format_to(std::back_inserter(out), text, std::forward<Values>(values)...);
    out += '\n';
  };
  line("  memory: {}", device.memory);
  line("  peak: {:.4g}", device.peak);
  line("  products:");
  for (auto const& [bytes, rates] : device.products) {
    line("    {}:", precision_of(bytes));
    line("      rate: {:.4g}", rates.large_rate());
    line("      units: {}", rates.units());
    line("      measured:  # m, n, k, operations a second");
    for (auto const& [shape, rate] : rates.points())
      line("        - [{}, {}, {}, {:.4g}]", shape.m, shape.n, shape.k, rate);
  }
  line(
      "  attention:  # by the width of a head: keys that a query sees on average, operations a "
      "second");
  for (auto const& [bytes, widths] : device.attention) {
    line("    {}:", precision_of(bytes));
    for (auto const& [width, rates] : widths) {
      line("      {}:", width);
      line("        forward: {}", text_of(rates.forward));
      line("        backward: {}", text_of(rates.backward));
    }
  }
  line("  memory_rate: {:.4g}", device.memory_rate);
  line("  operations:  # bytes of a call, bytes a second");
  for (auto const& [name, rates] : device.operations) line("    {}: {}", name, text_of(rates));
  line("  gap: {:.3g}", device.gap);
  if (device.host_rate > 0) line("  host_rate: {:.4g}", device.host_rate);
  return out;
}

}  // namespace

std::string detail::storage_text(cluster::storage const& disks, cluster::failures const& failures) {
  return fmt::format(
      "storage:\n  node: {{save: {}GB/s, load: {}GB/s}}\n"
      "  shared: {{save: {}GB/s, load: {}GB/s}}\n"
      "failures: {{node_days: {}, start: {}, restart: {}}}\n",
      disks.node.save / 1e9, disks.node.load / 1e9, disks.shared.save / 1e9,
      disks.shared.load / 1e9, failures.node_days, failures.start, failures.restart);
}

std::string cluster_text(cluster::cluster const& machines) {
  auto const& links = machines.links;
  int const devices = machines.devices_on_node;
  auto out = "device:\n" + text_of(machines.device);
  if (machines.reserved_memory > 0)
    out += fmt::format("  reserved: {}\n", machines.reserved_memory);
  out += fmt::format("node:\n  devices: {}\n  jitter: {:.3g}\n", devices, machines.jitter);
  if (machines.host_memory > 0) out += fmt::format("  memory: {}\n", machines.host_memory);
  if (links.oversubscription > 1)
    out += fmt::format("  oversubscription: {}\n", links.oversubscription);
  if (links.device_link.rate > 0)
    out += fmt::format("  inside: {}\n", text_of(links.device_link, 1));
  if (links.node_link.rate > 0)
    out += fmt::format("  between: {}\n", text_of(links.node_link, devices));
  out += fmt::format("nodes: {}\n", machines.nodes);
  if (machines.price > 0) out += fmt::format("price: {}\n", machines.price);
  return out + detail::storage_text(machines.disks, machines.interruptions);
}

}  // namespace mpt
