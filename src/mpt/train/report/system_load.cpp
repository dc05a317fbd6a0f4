#include <mpt/train/report/system_load.hpp>

#include <fstream>
#include <sstream>

namespace mpt {

system_load::system_load(std::filesystem::path files, instant time)
    : files_(std::move(files)), time_(time), last_(read_counts()) {}

system_load::counts system_load::read_counts() const {
  counts out;
  std::ifstream processors(files_ / "stat");
  std::string name;
  if (processors >> name && name == "cpu") {
    // user, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen
    double count = 0;
    for (int column = 0; column < 8 && processors >> count; ++column) {
      out.ticks += count;
      if (column != 3 && column != 4) out.busy_ticks += count;
    }
  }
  std::ifstream network(files_ / "net/dev");
  for (std::string line; std::getline(network, line);) {
    auto const colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two lines of titles
    auto const begin = line.find_first_not_of(' ');
    if (line.substr(begin, colon - begin) == "lo") continue;
    std::istringstream columns(line.substr(colon + 1));
    double received = 0, other = 0, sent = 0;
    columns >> received;
    for (int column = 1; column < 8; ++column) columns >> other;
    if (!(columns >> sent)) continue;
    out.received += received;
    out.sent += sent;
    out.has_network = true;
  }
  return out;
}

named_numbers system_load::read(instant time) {
  named_numbers out;
  auto const current = read_counts();
  auto const previous = std::exchange(last_, current);
  double const seconds = std::chrono::duration<double>(time - std::exchange(time_, time)).count();
  if (current.ticks > previous.ticks)
    out.emplace_back("cpu_share",
                     (current.busy_ticks - previous.busy_ticks) / (current.ticks - previous.ticks));
  std::ifstream memory(files_ / "meminfo");
  double total = 0, available = 0;
  for (std::string name, line; memory >> name && std::getline(memory, line);) {
    if (name == "MemTotal:") total = std::stod(line);
    if (name == "MemAvailable:") available = std::stod(line);
  }
  if (total > 0) out.emplace_back("memory_share", 1 - available / total);
  if (!current.has_network || !previous.has_network || seconds <= 0) return out;
  out.emplace_back("network_received_bytes_per_sec",
                   (current.received - previous.received) / seconds);
  out.emplace_back("network_sent_bytes_per_sec", (current.sent - previous.sent) / seconds);
  return out;
}

}  // namespace mpt
