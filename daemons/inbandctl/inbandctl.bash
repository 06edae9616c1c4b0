# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
_inbandctl() {
	local word=${COMP_WORDS[COMP_CWORD]} i command=
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--socket | --timeout | --compare | --loop | --count | --thresholds | --worst | --seconds | --intensity | --under | --range | --prefix) ((i++)) ;;
		-*) ;;
		*)
			command=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	case $command in
	'') COMPREPLY=($(compgen -W 'status discover check show trace routes bist read write scan eeprom alarms ack events audit baseline suppress save export watch --socket --json --timeout --help' -- "$word")) ;;
	check) COMPREPLY=($(compgen -W th2 -- "$word") $(compgen -f -- "$word")) ;;
	scan) COMPREPLY=($(compgen -W '--compare --loop --count --thresholds --worst' -- "$word")) ;;
	eeprom) COMPREPLY=($(compgen -W 'verify write read --tables --range' -- "$word") $(compgen -f -- "$word")) ;;
	baseline) COMPREPLY=($(compgen -W 'save diff drop list' -- "$word")) ;;
	suppress) COMPREPLY=($(compgen -W 'add drop list' -- "$word")) ;;
	export) COMPREPLY=($(compgen -W 'topology slurm drain routes --prefix' -- "$word") $(compgen -f -- "$word")) ;;
	save) COMPREPLY=($(compgen -f -- "$word")) ;;
	events | audit) COMPREPLY=($(compgen -W --count -- "$word")) ;;
	bist) COMPREPLY=($(compgen -W '--under --seconds --intensity' -- "$word")) ;;
	alarms) COMPREPLY=($(compgen -W --all -- "$word")) ;;
	esac
}
complete -F _inbandctl inbandctl
