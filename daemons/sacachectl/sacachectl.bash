# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Completion of sacachectl's commands and options, for bash.
_sacachectl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i
	local options='--socket --json --timeout --help --version'
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		status | list | lookup | flush | prefetch | save) command=${COMP_WORDS[i]} ;;
		esac
	done
	case $before in
	--socket | --file)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	esac
	case $command in
	'') options="status list lookup flush prefetch save $options" ;;
	list) options="--suspect --failures $options" ;;
	lookup) options="--from --pkey --sl --tclass --qos-class --service-id --port --cached $options" ;;
	flush) options="--all $options" ;;
	prefetch) options="--all --file $options" ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
}
complete -F _sacachectl sacachectl
