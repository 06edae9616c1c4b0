# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Virtual fabrics of hundreds and thousands of nodes: meson test -C build --suite soak.

load helpers
load fabric

# routed SAYS ENGINE OPTION…: OpenSM at h0 makes tables with that engine, of which fabric-routes says what matches.
routed() {
	local said
	managed h0 -R "${@:2}"
	said=$(routes "$2")
	echo "$2: $said"
	# shellcheck disable=SC2053
	[[ $said == $1 ]]
	stop_opensm "${started[-1]}"
	rm "$XDG_RUNTIME_DIR/h0.log"
}

@test "ftree, updn, minhop and dfsssp on 702 nodes" {
	local engine
	generated fat-tree ports=36
	for engine in ftree updn minhop dfsssp; do
		routed 'hosts 648 pairs 419256 lost 0 hops 4 routes 1 levels * circles 0' $engine
	done
}

@test "ftree with thrice the hosts, and updn with LMC 2, on three levels" {
	generated fat-tree levels=3 ports=8 oversubscription=3
	routed 'hosts 192 pairs 36672 lost 0 hops 6 routes 1 levels 1 circles 0' ftree
	"$URXE" fabric down
	generated fat-tree levels=3 ports=8
	routed 'hosts 128 pairs 16256 lost 0 hops 6 routes 4 levels 1 circles 0' updn -l 2
}

@test "1,000 processes on 127 hosts, and as many in their places when all were killed" {
	generated fat-tree ports=16
	managed h0
	crowd 1000 127
}

@test "lash, dfsssp and dor on a torus, a dragonfly and a hypercube" {
	generated torus x=6 y=6 z=4
	routed 'hosts 144 pairs 20592 lost 0 hops * circles 0' lash
	"$URXE" fabric down
	generated dragonfly a=6 h=3 p=2
	routed 'hosts 228 pairs 51756 lost 0 hops * circles 0' dfsssp
	"$URXE" fabric down
	generated hypercube dimensions=7
	routed 'hosts 128 pairs 16256 lost 0 hops 9 routes 1 levels 1 circles 0' dor
}
