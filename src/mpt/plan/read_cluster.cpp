#include <mpt/plan/read_cluster.hpp>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <mpt/ascii.hpp>
#include <mpt/plan/write_cluster.hpp>
#include <mpt/yaml/document.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {

namespace cluster = parallel::cluster;

namespace {

/// The numbers of a list of numbers.
[[nodiscard]] std::vector<double> numbers_of(config_node const& node, std::string_view name) {
  std::vector<double> out;
  for (auto const& item : node.items) {
    auto const number = item.is_scalar() ? parse_number(item.text) : std::nullopt;
    parallel::require(number && *number > 0, item.location, ": ", name,
                      ": expected a number above 0, found ", describe(item));
    out.push_back(*number);
  }
  return out;
}

/// The rows of a list of lists of `columns` numbers.
[[nodiscard]] std::vector<std::vector<double>> rows_of(config_node const* node,
                                                       std::string_view name, std::size_t columns) {
  std::vector<std::vector<double>> out;
  if (node == nullptr) return out;
  parallel::require(node->is_list(), node->location, ": ", name, ": expected a list, found ",
                    describe(*node));
  for (auto const& item : node->items) {
    parallel::require(item.is_list() && item.items.size() == columns, item.location, ": ", name,
                      ": expected a list of ", columns, " numbers, found ", describe(item));
    out.push_back(numbers_of(item, name));
  }
  return out;
}

[[nodiscard]] double positive(config_reader& reader, std::string_view key) {
  auto const value = reader.required<double>(key);
  reader.check(key, value > 0, "must be above 0, found ", value);
  return value;
}

/// The bytes of a key; 0 where it is absent or 0.
[[nodiscard]] std::uint64_t bytes_of(config_reader& reader, std::string_view key) {
  auto const text = reader.get<std::string>(key, "0");
  if (text == "0") return 0;
  auto const bytes = parse_bytes(text);
  reader.check(key, bytes.has_value(), "expected a size such as 80GB, found '", printable(text),
               "'");
  return *bytes;
}

[[nodiscard]] cluster::rate_curve curve_of(config_reader& reader, std::string_view key) {
  std::vector<std::pair<double, double>> points;
  auto const* const node = reader.raw(key);
  for (auto const& row : rows_of(node, reader.full_name(key), 2))
    points.emplace_back(row[0], row[1]);
  reader.check(key, !points.empty(), "missing; give points such as [[1024, 484e12]]");
  return cluster::rate_curve(std::move(points));
}

[[nodiscard]] cluster::product_rates read_products(config_reader reader) {
  std::vector<cluster::measured_product> points;
  auto const* const node = reader.raw("measured");
  for (auto const& row : rows_of(node, reader.full_name("measured"), 4))
    points.push_back({{row[0], row[1], row[2]}, row[3]});
  auto const rate = positive(reader, "rate");
  auto const units = reader.get<double>("units", 1);
  reader.check("units", units >= 1, "must be at least 1, found ", units);
  reader.finish();
  return cluster::product_rates(rate, units, std::move(points));
}

/// The names of precisions with the bytes of an element.
constexpr std::pair<std::string_view, int> precisions[] = {
    {"fp8", 1}, {"bf16", 2}, {"fp32", 4}, {"fp64", 8}};

/// Rates of attention by the width of a head, of elements of `bytes` bytes.
void read_attention_rates(config_reader& reader, int bytes, cluster::processor& out) {
  for (int width = 1; width <= 512; ++width) {
    auto const key = std::to_string(width);
    if (!reader.has_key(key)) continue;
    auto rates = reader.section(key);
    auto& target = out.attention[bytes][width];
    target.forward = curve_of(rates, "forward");
    target.backward = curve_of(rates, "backward");
    rates.finish();
  }
}

void read_attention(config_reader reader, cluster::processor& out) {
  read_attention_rates(reader, 2, out);
  for (auto const& [name, bytes] : precisions) {
    if (!reader.has_key(name)) continue;
    auto rates = reader.section(name);
    read_attention_rates(rates, bytes, out);
    rates.finish();
  }
  reader.finish();
}

void read_operations(config_node const* node, cluster::processor& out) {
  if (node == nullptr) return;
  config_report report;
  config_reader reader(*node, "device.operations", report);
  for (auto const& key : node->keys) out.operations[key.name] = curve_of(reader, key.name);
  reader.finish();
}

[[nodiscard]] cluster::processor read_device(config_reader reader, cluster::cluster& machines) {
  cluster::processor out{.name = machines.name};
  out.memory = bytes_of(reader, "memory");
  reader.check("memory", out.memory > 0, "missing; give bytes such as 80GB");
  machines.reserved_memory = bytes_of(reader, "reserved");
  reader.check("reserved", machines.reserved_memory < out.memory,
               "must be less than the memory of the device");
  out.peak = positive(reader, "peak");
  auto products = reader.section("products");
  for (auto const& [key, bytes] : precisions)
    if (products.has_key(key)) out.products.emplace(bytes, read_products(products.section(key)));
  products.finish();
  reader.check("products", !out.products.empty(), "missing; give bf16 or fp32, or both");
  read_attention(reader.section("attention"), out);
  out.memory_rate = positive(reader, "memory_rate");
  read_operations(reader.raw("operations"), out);
  out.gap = reader.get<double>("gap", 0);
  out.host_rate = reader.get<double>("host_rate", 20e9);
  reader.finish();
  return out;
}

/// The link of a key; its rate is that of `devices` together.
[[nodiscard]] cluster::link read_link(config_reader reader, int devices) {
  cluster::link out;
  out.latency = reader.get<double>("latency", 0);
  auto const rate = reader.get<std::string>("rate", "");
  reader.check("rate", !rate.empty(), "missing; give bytes a second, such as 50GB/s or 400Gb/s");
  out.rate = parse_rate(rate) / devices;
  if (reader.has_key("sum_rate"))
    out.sum_rate = parse_rate(reader.required<std::string>("sum_rate")) / devices;
  if (reader.has_key("efficiency")) out.efficiency = curve_of(reader, "efficiency");
  out.processor_share = reader.get<double>("processor_share", 0);
  reader.check("processor_share", out.processor_share >= 0 && out.processor_share < 1,
               "must be at least 0 and less than 1");
  reader.finish();
  return out;
}

[[nodiscard]] double disk_rate(config_reader& reader, std::string_view key, double fallback) {
  auto const text = reader.get<std::string>(key, "");
  return text.empty() ? fallback : parse_rate(text);
}

[[nodiscard]] cluster::storage read_storage(config_reader reader) {
  cluster::storage out;
  for (auto const& [key, rates] : {std::pair{"node", &out.node}, {"shared", &out.shared}}) {
    auto disk = reader.section(key);
    rates->save = disk_rate(disk, "save", rates->save);
    rates->load = disk_rate(disk, "load", rates->load);
    disk.finish();
  }
  reader.finish();
  return out;
}

[[nodiscard]] cluster::failures read_failures(config_reader reader) {
  cluster::failures out;
  for (auto const& [key, value] :
       {std::pair{"node_days", &out.node_days}, {"start", &out.start}, {"restart", &out.restart}}) {
    *value = reader.get<double>(key, *value);
    reader.check(key, *value >= 0, "must be at least 0, found ", *value);
  }
  reader.finish();
  return out;
}

/// The number after the last `mark` of a text, which loses both; none if there is none.
[[nodiscard]] std::optional<int> take_number(std::string& text, char mark) {
  auto const position = text.rfind(mark);
  if (position == std::string::npos) return std::nullopt;
  int number = 0;
  auto const* const end = text.data() + text.size();
  auto const [rest, problem] = std::from_chars(text.data() + position + 1, end, number);
  if (problem != std::errc() || rest != end) return std::nullopt;
  text.resize(position);
  return number;
}

[[nodiscard]] std::string names_of_known(config_node const& document) {
  std::string out;
  for (auto const& key : document.keys) out += (out.empty() ? "" : ", ") + key.name;
  return out;
}

[[nodiscard]] config_node const& known_cluster(config_node const& document, std::string_view name) {
  auto const* const found = document.find(name);
  parallel::require(found != nullptr, "cluster: '", printable(name), "' is not known; there are ",
                    names_of_known(document),
                    ", as in h100x8x64 (64 nodes of 8); or give a YAML file in the form of `plan "
                    "--show-cluster h100`");
  return *found;
}

/// The longest name of a known device with which a text begins, up to its end or an x; the text up
/// to its first x if there is none.
[[nodiscard]] std::string known_name_in(config_node const& document, std::string const& text) {
  std::string found;
  for (auto const& key : document.keys) {
    bool const begins = text == key.name || text.starts_with(key.name + 'x');
    if (begins && key.name.size() > found.size()) found = key.name;
  }
  return found.empty() ? text.substr(0, text.find('x')) : found;
}

}  // namespace

double parse_rate(std::string_view text) {
  double factor = 1;
  auto number = text;
  for (auto const& [unit, bytes] : {std::pair{"GB/s", 1e9},
                                    {"MB/s", 1e6},
                                    {"TB/s", 1e12},
                                    {"Gb/s", 1e9 / 8},
                                    {"Mb/s", 1e6 / 8},
                                    {"Tb/s", 1e12 / 8}}) {
    if (!number.ends_with(unit)) continue;
    number.remove_suffix(std::string_view(unit).size());
    factor = bytes;
    break;
  }
  auto const value = parse_number(number);
  parallel::require(value && *value > 0 && std::isfinite(*value), "'", printable(text),
                    "' is not a rate; write 400Gb/s (bits), 50GB/s (bytes) or bytes a second");
  return *value * factor;
}

cluster::cluster read_cluster(config_reader reader, std::string name) {
  cluster::cluster out{.name = std::move(name)};
  out.device = read_device(reader.section("device"), out);
  auto node = reader.section("node");
  auto const devices = node.get<std::int64_t>("devices", 8);
  node.check("devices", devices >= 1 && devices <= 4096, "must be from 1 to 4096, found ", devices);
  out.devices_on_node = static_cast<int>(devices);
  out.host_memory = bytes_of(node, "memory");
  if (devices > 1 || node.has_key("inside"))
    out.links.device_link = read_link(node.section("inside"), 1);
  if (devices > 1 || node.has_key("between"))
    out.links.node_link = read_link(node.section("between"), out.devices_on_node);
  out.jitter = node.get<double>("jitter", 0);
  node.check("jitter", out.jitter >= 0, "must be at least 0");
  out.links.oversubscription = node.get<double>("oversubscription", 1);
  node.check("oversubscription", out.links.oversubscription >= 1, "must be at least 1");
  node.finish();
  out.disks = read_storage(reader.section("storage"));
  out.interruptions = read_failures(reader.section("failures"));
  auto const nodes = reader.get<std::int64_t>("nodes", 1);
  reader.check("nodes", nodes >= 1 && nodes <= 1 << 20, "must be at least 1, found ", nodes);
  out.nodes = static_cast<int>(nodes);
  out.price = reader.get<double>("price", 0);
  reader.finish(true);
  return out;
}

config_node parse_known_clusters() { return parse_yaml(detail::known_clusters, "clusters.yaml"); }

cluster::cluster read_cluster(std::string const& text, double rate) {
  return read_cluster(text, rate, parse_known_clusters());
}

cluster::cluster read_cluster(std::string const& text, double rate, config_node const& known) {
  std::string name = text;
  std::optional<int> nodes, devices;
  config_node node;
  config_report report;
  bool const is_file =
      name.find(".yaml") != std::string::npos || name.find('/') != std::string::npos;
  if (is_file) {
    nodes = take_number(name, ':');
    node = load_document(name);
  } else {
    name = known_name_in(known, text);
    auto sizes = text.substr(name.size());  // "", "x8" or "x8x64"
    auto const last_number = take_number(sizes, 'x');
    auto const first_number = last_number ? take_number(sizes, 'x') : std::nullopt;
    parallel::require(sizes.empty(), "cluster: '", printable(text),
                      "': expected a device, the devices a node and the nodes, as in ", name,
                      "x8x64");
    devices = first_number ? first_number : last_number;
    if (first_number) nodes = last_number;
    node = known_cluster(known, name);
  }
  auto out = read_cluster(config_reader(node, "", report), name);
  for (auto const& [number, unit] : {std::pair{nodes, "nodes"}, {devices, "devices a node"}})
    parallel::require(!number || *number >= 1, "cluster: '", printable(text), "' has ",
                      number.value_or(0), ' ', unit, "; it needs at least 1");
  if (devices) out.devices_on_node = *devices;  // each has its own connection to other nodes
  if (nodes) out.nodes = *nodes;
  out.name = text;
  if (rate > 0) out.links.node_link.rate = rate / out.devices_on_node;
  parallel::require(out.nodes == 1 || out.links.node_link.rate > 0, "cluster: '", printable(text),
                    "' has ", out.nodes,
                    " nodes, but the description has no node.between; give its "
                    "rate there, or network=1Gb/s");
  return out;
}

std::string known_device_in(std::string_view text) {
  std::string letters;  // of "NVIDIA GeForce RTX 4090": nvidiageforcertx4090
  for (char const c : lower_case(text))
    if (c != ' ' && c != '-') letters += c;
  std::string found;
  for (auto const& key : parse_known_clusters().keys)
    if (letters.find(key.name) != std::string::npos && key.name.size() > found.size())
      found = key.name;
  return found;
}

std::string cluster_file(std::string_view name) {
  static_cast<void>(known_cluster(parse_known_clusters(), name));
  std::string out;
  bool inside = false;
  for (std::string_view rest = detail::known_clusters; !rest.empty();) {
    auto const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.empty() && line.front() != ' ')
      inside = line.starts_with(std::string(name) + ':');
    else if (inside)
      out += std::string(line.substr(std::min<std::size_t>(2, line.size()))) + '\n';
  }
  return out + "nodes: 1\n" + detail::storage_text({}, {});
}

}  // namespace mpt
