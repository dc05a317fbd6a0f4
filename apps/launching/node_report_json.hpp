// node_report_json: a node's report as it is written into its file.
#pragma once

#include <nlohmann/json.hpp>

#include "launching/node_report.hpp"

namespace apps {

/// What the file of a node says of it.
[[nodiscard]] inline nlohmann::json json_of(node_report const& one) {
  return {{"node", one.node},           {"nodes", one.nodes},
          {"ranks", one.ranks},         {"restarts", one.restarts},
          {"spares", one.spares},       {"least", one.least},
          {"multiple", one.multiple},   {"host", one.host},
          {"program", one.program},     {"program_hash", one.program_hash},
          {"arguments", one.arguments}, {"files", one.files}};
}

/// And what is read there, with the time of its node's clock; it was `written` by the folder's.
[[nodiscard]] inline node_report report_of(nlohmann::json const& said, double written) {
  node_report out;
  out.node = said.at("node");
  out.nodes = said.at("nodes");
  out.ranks = said.at("ranks");
  out.restarts = said.at("restarts");
  out.spares = said.at("spares");
  out.least = said.at("least");
  out.multiple = said.at("multiple");
  out.host = said.at("host");
  out.program = said.at("program");
  out.program_hash = said.at("program_hash");
  out.arguments = said.at("arguments");
  out.files = said.at("files");
  out.clock = said.at("time").get<double>() - written;
  return out;
}

}  // namespace apps
