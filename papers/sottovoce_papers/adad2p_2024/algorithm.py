"""Registry entries for adad2p and constd2p, in their sound variants."""

from sottovoce.plugin import noisy_sums_algorithm

from sottovoce_papers.adad2p_2024.settings import AdaD2pSettings, ConstD2pSettings

ADAD2P = noisy_sums_algorithm(AdaD2pSettings, "refuted")
CONSTD2P = noisy_sums_algorithm(ConstD2pSettings, "refuted")
